/**
 * What an application gives a client, checked before anything is done with it.
 */

import type { Account } from "./accounts.js";
import { toHex } from "./bytes.js";
import type { Entropy } from "./coin.js";
import { SettingsError } from "./errors.js";
import { hexadecimal, text } from "./json.js";
import type { Timer } from "./schedule.js";
import type { Beginning } from "./store.js";
import type { Job } from "./syncing.js";

/** What a client is opened with: all of it can be sent to a worker. */
export interface OpenOptions {
  /** Where the proxy is: https://HOST, or http on this machine. Pinned at the first open. */
  proxy: string;
  /** The server's verification key, 64 hexadecimal digits. Pinned at the first open. */
  key: string;
  /** The most epsilon that this device spends; counts at the first open only, then `setLimit` does. */
  limit: number;
  /** Whether reporting is off; counts at the first open only, then `pause` does. Default: false. */
  paused?: boolean;
  /** Of the database. Default: "sottovoce". */
  name?: string;
  /** Seconds between two looks for news while the page is seen, 5..3600. Default: 30. */
  pace?: number;
  /** How many models of earlier epochs are fetched, for whoever draws a curve. Default: 0. */
  past?: number;
  /** Asks nobody: recommendations go on with what is here. Default: false. */
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
  /** Where databases are. Default: the browser's. */
  indexedDB?: IDBFactory;
  /** Keeps two tabs from syncing at once. Default: the browser's; null: none. */
  locks?: Pick<LockManager, "request"> | null;
}

/** As long a name as a catalogue can have. */
const MAX_TEXT = 512;

/** What a client begins with, or is compared with if it is there already. */
export function beginningOf(options: OpenOptions, time: number): Beginning {
  return {
    proxy: checkedAddress(options.proxy),
    key: toHex(asSetting(() => hexadecimal(options.key, "the server's key"))),
    since: new Date(time * 1000).toISOString().slice(0, 10),
    limit: checkedLimit(options.limit),
    paused: options.paused ?? false,
  };
}

/** A page that came over http has none, but on this machine. */
export function checkCryptography(): void {
  if (globalThis.crypto?.subtle === undefined) {
    throw new SettingsError(
      "browsers give cryptography to pages over https alone (and on localhost): serve this page so",
    );
  }
}

/** Names as a catalogue could have them. */
export function checkedItems(ids: readonly string[]): string[] {
  if (!Array.isArray(ids)) {
    throw new SettingsError("items are given as a list of strings");
  }
  return asSetting(() => ids.map((id) => text(id, MAX_TEXT, "item")));
}

/** The most epsilon that this device spends. Zero stops all reporting. */
export function checkedLimit(limit: number): number {
  if (!(Number.isFinite(limit) && limit >= 0)) {
    throw new SettingsError(`limit is ${limit}; it must be a finite number of at least 0`);
  }
  return limit;
}

/** Refuses what is out of range, and NaN. */
export function within(name: string, value: number, least: number, most: number): number {
  if (!(value >= least && value <= most)) {
    throw new SettingsError(`${name} must be in ${least}..${most} seconds, not ${value}`);
  }
  return value;
}

/** What came from the application and not from the proxy is a setting. */
function asSetting<Result>(read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    throw new SettingsError(error instanceof Error ? error.message : String(error));
  }
}

const THIS_MACHINE = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** The address without a slash at its end: https, or http to this machine itself. */
export function checkedAddress(address: string): string {
  const url = parsed(address);
  if (!["http:", "https:"].includes(url.protocol)) {
    throw new SettingsError(`the proxy's address must be https://HOST, not "${address}"`);
  }
  if (url.protocol === "http:" && !THIS_MACHINE.test(url.hostname)) {
    throw new SettingsError(
      `"${address}" is not encrypted: anyone on the way would see who takes part; use https ` +
        "(http is for this machine alone: localhost, 127.0.0.0/8, ::1)",
    );
  }
  if (url.username || url.password || /[?#]/.test(address)) {
    // Any of these could tell one device from another in every request.
    throw new SettingsError("the proxy's address must have no user name, password, ? or #");
  }
  return url.href.replace(/\/+$/, "");
}

function parsed(address: string): URL {
  try {
    return new URL(address);
  } catch {
    throw new SettingsError(`the proxy's address "${address}" cannot be read`);
  }
}
