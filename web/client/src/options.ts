/** The options of a client, and the checks of everything that an application passes to it. */

import type { TokenMaker } from "./accounts.js";
import { toHex } from "./bytes.js";
import type { Entropy } from "./coin.js";
import { SettingsError } from "./errors.js";
import { parseHex, parseText } from "./json.js";
import type { InitialSettings } from "./store.js";
import type { Job } from "./syncing.js";
import type { Timer } from "./timer.js";

/** The options of a client that can be posted to a worker. */
export interface OpenOptions {
  /**
   * Address of the proxy: https://HOST, or http on this machine. The first open stores it, and
   * later opens must name the same one.
   */
  proxy: string;
  /**
   * Verification key of the server, 64 hexadecimal digits. The first open stores it, and later
   * opens must name the same one.
   */
  key: string;
  /** Maximum epsilon that this device spends. Used by the first open only; later use `setLimit`. */
  limit: number;
  /**
   * Whether reporting is paused. Used by the first open only; later use `pause`. Default: false.
   */
  paused?: boolean;
  /** Name of the database. Default: "sottovoce". */
  name?: string;
  /** Seconds between two looks for news while the page is visible, 5..3600. Default: 30. */
  pace?: number;
  /** Number of models of earlier epochs to fetch, for a learning curve. Default: 0. */
  pastModels?: number;
  /** Whether to make no requests. Recommendations then use the stored model. Default: false. */
  offline?: boolean;
}

/** The options of `Network.open`. */
export interface NetworkOptions extends OpenOptions {
  /** Name of the database. */
  name: string;
  /** Tells the worker `batches` to make a batch. */
  make: (job: Job) => void;
  /** Token maker, if the page has one. */
  tokenMaker?: TokenMaker | null | undefined;
  timer?: Timer;
  entropy?: Entropy;
  /** Length in seconds of the interval from which the moment of sending is drawn. */
  jitter?: number;
  fetch?: typeof fetch;
  /** Factory of databases. Default: the browser's. */
  indexedDB?: IDBFactory;
  /** Keeps two tabs from syncing at the same time. Default: the browser's locks; null: no locks. */
  locks?: Pick<LockManager, "request"> | null;
}

/** Longest id of a catalogue. */
const MAX_ID_CHARACTERS = 512;

/**
 * Check the settings for a first open, or for the comparison with the stored ones. `time` is in
 * Unix seconds.
 */
export function parseInitialSettings(options: OpenOptions, time: number): InitialSettings {
  return {
    proxy: checkAddress(options.proxy),
    key: toHex(readSetting(() => parseHex(options.key, "the server's key"))),
    since: new Date(time * 1000).toISOString().slice(0, 10),
    limit: checkLimit(options.limit),
    paused: options.paused ?? false,
  };
}

/** Check that the browser offers cryptography to this page, which requires https or localhost. */
export function checkCryptography(): void {
  if (globalThis.crypto?.subtle === undefined) {
    throw new SettingsError(
      "this page must be served over https: browsers offer cryptography only there",
    );
  }
}

/** Check that ids have the form of item ids. */
export function checkIds(ids: readonly string[]): string[] {
  if (!Array.isArray(ids)) {
    throw new SettingsError("item ids must be a list of strings");
  }
  return readSetting(() => ids.map((id) => parseText(id, MAX_ID_CHARACTERS, "item")));
}

/** Check a limit of epsilon. A limit of zero stops all reporting. */
export function checkLimit(limit: number): number {
  if (!(Number.isFinite(limit) && limit >= 0)) {
    throw new SettingsError(`limit is ${limit}; it must be a finite number of at least 0`);
  }
  return limit;
}

/** Check that a number of seconds is within a range. NaN is refused too. */
export function checkRange(name: string, value: number, min: number, max: number): number {
  if (!(value >= min && value <= max)) {
    throw new SettingsError(`${name} must be in ${min}..${max} seconds, not ${value}`);
  }
  return value;
}

/**
 * Convert every error to a `SettingsError`, because the value came from the application and not
 * from the proxy.
 */
function readSetting<Result>(read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    throw new SettingsError(error instanceof Error ? error.message : String(error));
  }
}

const LOOPBACK_HOST = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/**
 * Check the address of the proxy, and return it without a slash at its end. It must use https; http
 * is allowed for this machine only.
 */
export function checkAddress(address: string): string {
  const url = parseUrl(address);
  if (!["http:", "https:"].includes(url.protocol)) {
    throw new SettingsError(`the proxy's address must be https://HOST, not "${address}"`);
  }
  if (url.protocol === "http:" && !LOOPBACK_HOST.test(url.hostname)) {
    throw new SettingsError(
      `"${address}" is not encrypted: anyone on the network path would see who takes part; use ` +
        "https (http is for this machine only)",
    );
  }
  if (url.username || url.password || /[?#]/.test(address)) {
    // Each of these parts could identify a device in every request.
    throw new SettingsError("the proxy's address must have no user name, password, ? or #");
  }
  return url.href.replace(/\/+$/, "");
}

function parseUrl(address: string): URL {
  try {
    return new URL(address);
  } catch {
    throw new SettingsError(
      `the proxy's address must be a URL such as https://HOST, not "${address}"`,
    );
  }
}
