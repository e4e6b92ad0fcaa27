/** What a client remembers: the rows of its database, one type for each object store. */

import type { Charge } from "./ledger.js";
import type { Told } from "./mechanism/index.js";
import type { Terms } from "./terms.js";

/** Whom she trusts, what she chose, and how far she has seen: the one row of `settings`. */
export interface Settings {
  only: 1;
  /** Where the proxy is. */
  proxy: string;
  /** The server's verification key, in hexadecimal: pinned at the first open. */
  key: string;
  /** The day of that first open, as YYYY-MM-DD. */
  since: string;
  /** The epsilon of a lifetime, at most. */
  limit: number;
  /** Whether nothing is to leave. */
  paused: boolean;
  /** Whether only `agree` pins terms. */
  askFirst: boolean;
  /** What she agreed to; null before the first manifest. */
  terms: Terms | null;
  /** The last manifest accepted; it is public and survives `forget`. */
  newest: { epoch: number; hash: string } | null;
}

/** One thing that she touched: its name and its place in the order, no time. */
export interface TouchedRow {
  place: number;
  id: string;
}

/** The signed manifest (under that name), or a model or catalogue under its hash. */
export interface FileRow {
  name: string;
  content: Uint8Array;
}

/**
 * What became of a batch. Python's client has "stored" before "charged", because its ledger is
 * another file. Here both are written in one transaction, so nothing can be stored and not charged.
 */
export type State = "charged" | "sent" | "dropped";

/** The batch of an epoch. There is one at most, ever: the epoch is the row's key. */
export interface BatchRow {
  epoch: number;
  state: State;
  /** SHA-256 of the encoded batch, in hexadecimal; its charge has the same name. */
  purpose: string;
  /** From this second on it is of no use. */
  closes: number;
  /** The proxy asked not to be sent it before (Unix seconds). */
  notBefore: number;
  /** The encoded batch, until it has arrived or was given up. */
  bytes: Uint8Array | null;
}

/** The last batch in readable form, for its owner's eyes: the one row of `shown`. */
export interface ShownRow {
  only: 1;
  epoch: number;
  bytes: Uint8Array;
  told: readonly Told[];
  mechanism: string;
  epsilon: number;
  purpose: string;
}

/** Every object store and what it holds. */
export interface Schema {
  settings: Settings;
  items: TouchedRow;
  files: FileRow;
  batches: BatchRow;
  charges: Charge;
  shown: ShownRow;
}
