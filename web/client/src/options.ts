/** What an application gives a client, checked before anything is done with it. */

import { checkedAddress } from "./address.js";
import { toHex } from "./bytes.js";
import { SettingsError } from "./errors.js";
import type { Beginning } from "./store.js";
import { hexadecimal, text } from "./strict.js";
import type { Entropy, Words } from "./words.js";

/** So many seconds later. */
export type Sleep = (seconds: number, signal?: AbortSignal) => Promise<void>;

/** What a client is opened with. */
export interface ClientOptions {
  /** Where the proxy is: https://HOST, or http on this machine. Pinned at the first open. */
  proxy: string;
  /** The server's verification key, 64 hexadecimal digits. Pinned at the first open. */
  key: string;
  /** The epsilon of a lifetime; counts at the first open only, then `setLimit` does. */
  limit: number;
  /** Whether reporting is off; counts at the first open only, then `pause` does. Default: false. */
  paused?: boolean;
  /** Of the database. Default: "sottovoce". */
  name?: string;
  /** Unix seconds. */
  clock?: () => number;
  words?: Words;
  entropy?: Entropy;
  fetch?: typeof fetch;
  /** So many seconds later; rejects at once when the signal is aborted. */
  sleep?: Sleep;
  /** Where databases are. Default: the browser's. */
  indexedDB?: IDBFactory;
  /** Keeps two tabs from syncing at once. Default: the browser's; null: none. */
  locks?: Pick<LockManager, "request"> | null;
}

/** As long a name as a catalogue can have. */
const MAX_TEXT = 512;

/** The browser's clock, in Unix seconds. */
export const now = () => Date.now() / 1000;

/** The browser's timer, given up when the signal is aborted. */
export const sleepFor: Sleep = (seconds, signal) =>
  new Promise((done, fail) => {
    signal?.throwIfAborted();
    const timer = setTimeout(done, Math.ceil(seconds * 1000));
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      fail(signal.reason);
    });
  });

/** What a client begins with, or is compared with if it is there already. */
export function beginningOf(options: ClientOptions, time: number): Beginning {
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
    throw new SettingsError("items are given as a list, not as one string");
  }
  return asSetting(() => ids.map((id) => text(id, MAX_TEXT, "item")));
}

/** The epsilon of a lifetime. Zero stops all reporting. */
export function checkedLimit(limit: number): number {
  if (!(Number.isFinite(limit) && limit >= 0)) {
    throw new SettingsError(`limit is ${limit}; it must be a finite number of at least 0`);
  }
  return limit;
}

/** What came from the application and not from the proxy is a setting. */
function asSetting<Result>(read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    throw new SettingsError(error instanceof Error ? error.message : String(error));
  }
}
