/** What a server publishes about an epoch: its terms and its manifest. */

import type { Bytes } from "./bytes.js";

/** The terms: what a server may ask of a device, and how many others must take part. */
export interface Terms {
  /** The training's id: 32 hexadecimal digits, drawn at random when it begins. */
  readonly training: string;
  /** Name of the mechanism that makes reports. */
  readonly mechanism: string;
  /** The public parameters of that mechanism, by the names that they have in the manifest. */
  readonly parameters: Readonly<Record<string, number>>;
  /** The privacy budget of one report. */
  readonly epsilon: number;
  /** rho: the largest fraction of all directions that can be loud for one history. */
  readonly loudFraction: number;
  /** k: the number of reports in every batch. */
  readonly reports: number;
  /** The largest number of epochs in which a device ever takes part, discarded ones included. */
  readonly epochs: number;
  /**
   * The fraction of epochs in which a device takes part. In a training without an end, it is the
   * probability of taking part in each epoch.
   */
  readonly share: number;
  /** The smallest number of devices whose reports are mixed; below it an epoch is discarded. */
  readonly minClients: number;
  /** Seconds that an epoch waits for `minClients` after it closes, before it is discarded. */
  readonly hold: number;
  /** D: uniform random reports that every proxy mixes into each epoch. */
  readonly dummies: number;
  /** F: the number of columns of the item matrix. */
  readonly factors: number;
  /** The largest number of items (M) that the catalogue may grow to. */
  readonly maxItems: number;
  /** Whether a batch needs a token. Each account gets one token for an epoch. */
  readonly accounts: boolean;
  /** Whether this is a trial. Most people in a trial are invented, and hide nobody. */
  readonly trial: boolean;
}

/** The manifest of one epoch. Hashes and keys are bytes here and hexadecimal in the JSON. */
export interface Manifest {
  /**
   * Number of the epoch. Epochs are counted from 1 over all trainings of a service, and numbers
   * never go back.
   */
  readonly epoch: number;
  /** The terms of this epoch. */
  readonly terms: Terms;
  /** M: the number of items of the catalogue, which are the rows of the item matrix. */
  readonly items: number;
  /** Additional weight of a touched item: it weighs 1 + alpha, any other item 1. */
  readonly alpha: number;
  /** lambda: the ridge with which a device computes its user vector from this model. */
  readonly regularization: number;
  /** SHA-256 of the model file. */
  readonly model: Bytes;
  /** SHA-256 of the catalogue file, which says what each row of the item matrix is. */
  readonly catalogue: Bytes;
  /** SHA-256 of patches that make the two files from earlier ones; null if there is none. */
  readonly modelPatch: Bytes | null;
  readonly cataloguePatch: Bytes | null;
  /**
   * The X25519 key with which reports of this epoch are sealed; null if no reports are asked for.
   */
  readonly publicKey: Bytes | null;
  /** The key that the tokens of this epoch were made with; null if reports need no tokens. */
  readonly tokenKey: Bytes | null;
  /**
   * The key that the tokens of the next epoch are made with. Accounts may already request these
   * tokens; null if they may not.
   */
  readonly nextTokenKey: Bytes | null;
  /** The Unix second from which reports are accepted. */
  readonly opens: number;
  /**
   * The Unix second until which reports are accepted in any case.
   *
   * After it, the epoch ends as soon as its crowd is complete, at the latest at `endOfEpoch`.
   */
  readonly closes: number;
  /**
   * Number of epochs left in the training, including this one. 0 if the training has no end or is
   * over.
   */
  readonly epochsLeft: number;
  /** Reports counted in the last epoch that changed the model; 0 before the first. */
  readonly reportsBehind: number;
  /** The public table that the first model was learnt from; null if it was not. */
  readonly start: Provenance | null;
}

/** Where a public start comes from. No text has control characters. */
export interface Provenance {
  readonly name: string;
  /** Number of people in the table who touched an item of the catalogue. */
  readonly people: number;
  /** Date of the latest interaction (YYYY-MM-DD), or null. */
  readonly lastDate: string | null;
  readonly licence: string;
}

/** Check whether lists can use the item matrix, which is else only noise or zeros. */
export function hasModel({ reportsBehind, start }: Pick<Manifest, "reportsBehind" | "start">) {
  return reportsBehind > 0 || start !== null;
}

/** A manifest whose signature was checked. */
export interface SignedManifest {
  readonly manifest: Manifest;
  /**
   * SHA-256 of the manifest's bytes without signatures. This hash identifies the epoch everywhere.
   */
  readonly hash: Bytes;
  /** The verification key that signed the manifest. A reader trusts this key from now on. */
  readonly key: Bytes;
  /** The bytes as served. */
  readonly raw: Bytes;
}

/** Return the Unix second at which the epoch is over. Later reports are not counted. */
export function endOfEpoch({ closes, terms }: Manifest): number {
  return closes + terms.hold;
}

/**
 * Check whether something may leave the device for this epoch: reports, or the request for a token
 * of the next one. Only then the owner is asked.
 */
export function needsConsent({ publicKey, nextTokenKey }: Manifest): boolean {
  return publicKey !== null || nextTokenKey !== null;
}

/** Check whether a device may report at this time, in Unix seconds. */
export function isOpen(manifest: Manifest, now: number): boolean {
  return manifest.publicKey !== null && manifest.opens <= now && now < endOfEpoch(manifest);
}
