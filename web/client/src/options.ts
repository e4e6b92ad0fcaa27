/** What an application passes to a client, checked before anything is done with it. */

import type { Account } from "./accounts.js";
import { toHex } from "./bytes.js";
import type { Entropy } from "./coin.js";
import { SettingsError } from "./errors.js";
import { parseHex, parseText } from "./json.js";
import type { InitialSettings } from "./store.js";
import type { Job } from "./syncing.js";
import type { Timer } from "./timer.js";

/** The options of a client: all of them can be sent to a worker. */
export interface OpenOptions {
  /** Address of the proxy: https://HOST, or http on this machine. Pinned at the first open. */
  proxy: string;
  /** Verification key of the server, 64 hexadecimal digits. Pinned at the first open. */
  key: string;
  /** The most epsilon that this device spends; used at the first open only, then by `setLimit`. */
  limit: number;
  /** Whether reporting is off; used at the first open only, then by `pause`. Default: false. */
  paused?: boolean;
  /** Name of the database. Default: "sottovoce". */
  name?: string;
  /** Seconds between two looks for news of a visible page, 5..3600. Default: 30. */
  pace?: number;
  /** Number of models of earlier epochs to fetch, to draw a curve. Default: 0. */
  past?: number;
  /** Makes no requests: recommendations continue with the stored model. Default: false. */
  offline?: boolean;
}

/** What the side that speaks to the proxy is opened with. */
export interface NetworkOptions extends OpenOptions {
  name: string;
  make: (job: Job) => void;
  account?: Account | null | undefined;
  timer?: Timer;
  entropy?: Entropy;
  /** Seconds over which the moment of sending is drawn. */
  jitter?: number;
  fetch?: typeof fetch;
  /** Factory of databases. Default: the browser's. */
  indexedDB?: IDBFactory;
  /** Keeps two tabs from syncing at once. Default: the browser's; null: none. */
  locks?: Pick<LockManager, "request"> | null;
}

/** Longest id of a catalogue. */
const MAX_ID_CHARACTERS = 512;

/** Check the settings that a client begins with, or is compared with if it exists already. */
export function parseInitialSettings(options: OpenOptions, time: number): InitialSettings {
  return {
    proxy: checkAddress(options.proxy),
    key: toHex(readSetting(() => parseHex(options.key, "the server's key"))),
    since: new Date(time * 1000).toISOString().slice(0, 10),
    limit: checkLimit(options.limit),
    paused: options.paused ?? false,
  };
}

/** Check that the page has cryptography: a page over http has none, except on this machine. */
export function checkCryptography(): void {
  if (globalThis.crypto?.subtle === undefined) {
    throw new SettingsError(
      "browsers offer cryptography only over https (and on localhost); serve this page over https",
    );
  }
}

/** Check that ids could be those of a catalogue. */
export function checkIds(ids: readonly string[]): string[] {
  if (!Array.isArray(ids)) {
    throw new SettingsError("item ids must be a list of strings");
  }
  return readSetting(() => ids.map((id) => parseText(id, MAX_ID_CHARACTERS, "item")));
}

/** Check the most epsilon that this device spends. Zero stops all reporting. */
export function checkLimit(limit: number): number {
  if (!(Number.isFinite(limit) && limit >= 0)) {
    throw new SettingsError(`limit is ${limit}; it must be a finite number of at least 0`);
  }
  return limit;
}

/** Refuse a value out of range, and NaN. */
export function checkRange(name: string, value: number, min: number, max: number): number {
  if (!(value >= min && value <= max)) {
    throw new SettingsError(`${name} must be in ${min}..${max} seconds, not ${value}`);
  }
  return value;
}

/**
 * Turn any error into a `SettingsError`: the value came from the application, not from the proxy.
 */
function readSetting<Result>(read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    throw new SettingsError(error instanceof Error ? error.message : String(error));
  }
}

const LOOPBACK_HOST = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** Return the address without a slash at its end: https, or http to this machine itself. */
export function checkAddress(address: string): string {
  const url = parseUrl(address);
  if (!["http:", "https:"].includes(url.protocol)) {
    throw new SettingsError(`the proxy's address must be https://HOST, not "${address}"`);
  }
  if (url.protocol === "http:" && !LOOPBACK_HOST.test(url.hostname)) {
    throw new SettingsError(
      `"${address}" is not encrypted: anyone on the way would see who takes part; use https ` +
        "(http works only for this machine: localhost, 127.0.0.0/8, ::1)",
    );
  }
  if (url.username || url.password || /[?#]/.test(address)) {
    // Each of these could identify a device in every request.
    throw new SettingsError("the proxy's address must have no user name, password, ? or #");
  }
  return url.href.replace(/\/+$/, "");
}

function parseUrl(address: string): URL {
  try {
    return new URL(address);
  } catch {
    throw new SettingsError(`the proxy's address "${address}" is not a valid URL`);
  }
}
