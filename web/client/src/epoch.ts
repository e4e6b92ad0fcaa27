/** What a server publishes about an epoch: its terms and its manifest. */

import type { Bytes } from "./bytes.js";

/** What a device is asked for, at most, and among how many others, at least. */
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
  /** The fraction of epochs in which a device takes part; without an end, its chance in each. */
  readonly share: number;
  /** The smallest number of devices whose reports are mixed; below it an epoch is discarded. */
  readonly leastClients: number;
  /** Seconds that an epoch waits for `leastClients` after it closes, before it is discarded. */
  readonly hold: number;
  /** D: uniform random reports that every proxy mixes into each epoch. */
  readonly dummies: number;
  /** F: the number of columns of the item matrix. */
  readonly factors: number;
  /** The largest number of items (M) that the catalogue may grow to. */
  readonly mostItems: number;
  /** Whether a batch needs a token, of which each account gets one for an epoch. */
  readonly accounts: boolean;
  /** Whether this is a trial, in which most people are invented: nobody is hidden among them. */
  readonly trial: boolean;
}

/** One epoch. Hashes and keys are bytes here and hexadecimal in the JSON. */
export interface Manifest {
  /** Number of the epoch: counts from 1 over all trainings of a service, and never goes back. */
  readonly epoch: number;
  /** What devices are asked for. */
  readonly terms: Terms;
  /** M: the number of items of the catalogue, which are the rows of the item matrix. */
  readonly items: number;
  /** Extra weight of a touched item: 1 + alpha instead of 1. */
  readonly alpha: number;
  /** lambda: the ridge with which a device computes its user vector from this model. */
  readonly regularization: number;
  /** SHA-256 of the model file. */
  readonly model: Bytes;
  /** SHA-256 of the catalogue file, which says what each row of the item matrix is. */
  readonly catalogue: Bytes;
  /** The X25519 key to which reports of this epoch are sealed. null: no reports are asked for. */
  readonly publicKey: Bytes | null;
  /** The key that the tokens of this epoch were made with, where reports need tokens. */
  readonly tokenKey: Bytes | null;
  /** The key for tokens of the next epoch, which accounts may request from now on. */
  readonly nextTokenKey: Bytes | null;
  /** The Unix second from which reports are accepted. */
  readonly opens: number;
  /**
   * The Unix second until which reports are accepted in any case.
   *
   * From then on the epoch ends as soon as its crowd is there, at the latest at `endOf`.
   */
  readonly closes: number;
  /** Epochs of the training still to come, this one included. 0: without end, or it is over. */
  readonly epochsLeft: number;
  /** Reports counted in the last epoch that changed the model; 0 before the first. */
  readonly reportsBehind: number;
}

/** A manifest whose signature was checked. */
export interface SignedManifest {
  readonly manifest: Manifest;
  /** SHA-256 of the manifest's bytes without signatures: names the epoch everywhere. */
  readonly hash: Bytes;
  /** The verification key that signed it, which a reader trusts from now on. */
  readonly key: Bytes;
  /** The bytes as served. */
  readonly raw: Bytes;
}

/** Return the Unix second from which no report of the epoch is of use. */
export function endOfEpoch({ closes, terms }: Manifest): number {
  return closes + terms.hold;
}

/** Check whether a device may report at this time, in Unix seconds. */
export function isOpen(manifest: Manifest, now: number): boolean {
  return manifest.publicKey !== null && manifest.opens <= now && now < endOfEpoch(manifest);
}
