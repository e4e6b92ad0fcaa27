/** What a client remembers: the rows of its database, one type for each object store. */

import type { Charge } from "./ledger.js";
import type { Told } from "./mechanism/index.js";
import type { Terms } from "./terms.js";
import type { Plan } from "./timing.js";

/** Whom the owner trusts, what they chose, and how far they have seen: the one row of `settings`. */
export interface Settings {
  only: 1;
  /** Where the proxy is. */
  proxy: string;
  /** The server's verification key, in hexadecimal: pinned at the first open. */
  key: string;
  /** That key, or the last one that it has led to: moves forward with a release, and never back. */
  trusted: string;
  /** The day of that first open, as YYYY-MM-DD. */
  since: string;
  /** The epsilon of a lifetime, at most. */
  limit: number;
  /** Whether nothing is to leave. */
  paused: boolean;
  /** What they accepted; null before. */
  terms: Terms | null;
  /** The last manifest accepted; it is public and survives `forget`. */
  newest: { epoch: number; hash: string } | null;
  /** Random, and another one after every `forget`: a batch of what was forgotten is not kept. */
  generation: string;
}

/** One thing that the owner touched, and no time. */
export interface Touched {
  id: string;
  /** When it was touched last, counted: the same for what was recorded together, a later one larger. */
  moment: number;
}

/**
 * What the owner touched, in the order of recording: the one row of `history`. Writing it never takes
 * long, so that nothing that the network could notice has to wait for it.
 */
export interface HistoryRow {
  only: 1;
  items: readonly Touched[];
}

/** The signed manifest (under that name), or a model or catalogue under its hash. */
export interface FileRow {
  name: string;
  content: Uint8Array;
}

/** What became of a batch. It is stored and charged in one transaction. */
export type State = "charged" | "sent" | "dropped";

/** The batch of an epoch. There is one at most, ever: the epoch is the row's key. */
export interface BatchRow {
  epoch: number;
  state: State;
  /** SHA-256 of the encoded batch, in hexadecimal; its charge has the same name. */
  purpose: string;
  /** Not before this moment (Unix seconds): drawn before the history was read. */
  sendAt: number;
  /** From this second on it is of no use. */
  ends: number;
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
  history: HistoryRow;
  files: FileRow;
  batches: BatchRow;
  charges: Charge;
  /** What the device's own coins said of an epoch, before any history was read. */
  plans: Plan;
  shown: ShownRow;
}
