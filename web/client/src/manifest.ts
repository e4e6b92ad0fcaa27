/**
 * The manifest: everything that a device must know of one epoch, signed by the server.
 *
 * The device pins the server's verification key. Whoever hands the manifest on (the proxy, a cache)
 * can withhold it, but not change it; and since the same bytes go to everybody and their hash is
 * bound into every sealed report, nobody can be given a manifest, a model or a key of her own
 * unnoticed.
 */

import { HEADER } from "./batch.js";
import { type Bytes, concat, owned, sha256, utf8 } from "./bytes.js";
import { MAX_EPSILON } from "./coin.js";
import { ProtocolError, UntrustedError } from "./errors.js";
import { mechanismNamed } from "./mechanism/registry.js";
import { MAX_MODEL, modelSize } from "./model.js";
import { SEALED } from "./sealing.js";
import * as strict from "./strict.js";

/** One epoch; hashes and keys are bytes here and hexadecimal in the JSON. */
export interface Manifest {
  readonly version: 1;
  readonly suite: string;
  /** Counts from 1 and never goes back under one verification key. */
  readonly epoch: number;
  /** M. */
  readonly items: number;
  /** F. */
  readonly factors: number;
  /** The name of one that this client knows. */
  readonly mechanism: string;
  /** Of the public signs of the rotation; 0 for a mechanism that has none. */
  readonly directionsSeed: number;
  /** How many signed rows are loud; 0 for a mechanism that knows no such rows. */
  readonly loud: number;
  /** Budget of one report. */
  readonly epsilon: number;
  /** k: exactly so many reports in every batch. */
  readonly reports: number;
  readonly alpha: number;
  readonly regularization: number;
  /** SHA-256 of the model file. */
  readonly model: Bytes;
  /** SHA-256 of the catalogue file, which says what item number i is. */
  readonly catalogue: Bytes;
  /** X25519, for this epoch alone. null: a finished model, no reports are asked for. */
  readonly publicKey: Bytes | null;
  /** A proxy forwards the reports of at least so many, or of nobody. */
  readonly leastClients: number;
  /** Unix time in seconds: reports are taken from here */
  readonly opens: number;
  /** to here, this second not included. */
  readonly closes: number;
  /** How many reports the last epoch counted: what stands behind this model; 0 for the first. */
  readonly previousReports: number;
}

/** A manifest whose signature was checked. */
export interface SignedManifest {
  readonly manifest: Manifest;
  /** SHA-256 of the manifest's bytes, without the signature: names the epoch everywhere. */
  readonly hash: Bytes;
  /** As served: the signature, then the manifest's bytes. */
  readonly raw: Bytes;
}

/** Bytes of the longest signed manifest. */
export const MAX_SIGNED_MANIFEST = 16_384;
/** The only suite of version 1. */
export const SUITE = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM";
const VERSION = 1;
const SIGNATURE = 64;
const KEY = 32;
/** Stands before the bytes that are signed: a signature means a manifest and nothing else. */
const SIGNED = utf8("sottovoce manifest 1\0");
const LEAST_EPSILON = 1e-6;
const KEYS = [
  ...["version", "suite", "epoch", "items", "factors", "mechanism", "directions_seed", "loud"],
  ...["epsilon", "reports", "alpha", "regularization", "model", "catalogue", "public_key"],
  ...["least_clients", "opens", "closes", "previous_reports"],
];

/** Check the signature first; nothing of an unsigned manifest is ever looked at. */
export async function openManifest(data: Uint8Array, key: Uint8Array): Promise<SignedManifest> {
  if (data.length <= SIGNATURE || data.length > MAX_SIGNED_MANIFEST) {
    throw new ProtocolError(`signed manifest: ${data.length} bytes cannot be one`);
  }
  const raw = new Uint8Array(data);
  const text = raw.subarray(SIGNATURE);
  if (!(await isSigned(raw.subarray(0, SIGNATURE), concat(SIGNED, text), key))) {
    throw new UntrustedError(
      "the manifest is not signed by the server that this device knows; nothing is sent",
    );
  }
  return { manifest: decodeManifest(text), hash: await sha256(text), raw };
}

async function isSigned(signature: Bytes, message: Bytes, key: Uint8Array): Promise<boolean> {
  if (key.length !== KEY) return false;
  let verifier: CryptoKey;
  try {
    verifier = await crypto.subtle.importKey("raw", owned(key), "Ed25519", false, ["verify"]);
  } catch (error) {
    throw new UntrustedError(
      "the server's signature cannot be checked: its key is none, or this browser is too old for " +
        "Ed25519; nothing is sent",
      { cause: error },
    );
  }
  return crypto.subtle.verify("Ed25519", verifier, signature, message);
}

/** Any bytes give a manifest that can work, or a `ProtocolError`. */
export function decodeManifest(raw: Uint8Array): Manifest {
  const given = strict.readObject(raw, MAX_SIGNED_MANIFEST - SIGNATURE, "manifest");
  if (given.version !== VERSION || given.suite !== SUITE) {
    const [version, suite] = [strict.shown(given.version), strict.shown(given.suite)];
    throw new ProtocolError(
      `manifest: version ${version} with suite ${suite}; ` +
        `this program speaks version ${VERSION} with ${SUITE}`,
    );
  }
  strict.exactKeys(given, KEYS, "manifest");
  const manifest = checked(given);
  checkTogether(manifest);
  return manifest;
}

function checked(given: strict.Fields): Manifest {
  const most = Number.MAX_SAFE_INTEGER;
  const whole = (name: string, least: number, largest = most) =>
    strict.whole(given[name], least, largest, `manifest: ${name}`);
  const real = (name: string, least = 0, largest = Number.MAX_VALUE) =>
    strict.real(given[name], least, largest, `manifest: ${name}`);
  const bytes = (name: string) => strict.hexadecimal(given[name], `manifest: ${name}`);
  return {
    version: VERSION,
    suite: SUITE,
    epoch: whole("epoch", 1, 2 ** 32 - 1),
    items: whole("items", 1, 2 ** 24),
    factors: whole("factors", 1, 1024),
    mechanism: mechanismNamed(given.mechanism).name,
    directionsSeed: whole("directions_seed", 0),
    loud: whole("loud", 0),
    epsilon: real("epsilon", LEAST_EPSILON, MAX_EPSILON),
    reports: whole("reports", 1, 10_000),
    alpha: real("alpha"),
    regularization: real("regularization"),
    model: bytes("model"),
    catalogue: bytes("catalogue"),
    publicKey: given.public_key === null ? null : bytes("public_key"),
    leastClients: whole("least_clients", 1),
    opens: whole("opens", 0),
    closes: whole("closes", 0),
    previousReports: whole("previous_reports", 0),
  };
}

/** A manifest that no device could report with is refused by all of them alike. */
function checkTogether(manifest: Manifest): void {
  if (manifest.opens >= manifest.closes) {
    throw new ProtocolError("manifest: the epoch closes before it opens");
  }
  const largest = modelSize(manifest.items, manifest.factors);
  if (largest > MAX_MODEL) {
    throw new ProtocolError(`manifest: its model may be ${largest} bytes, beyond ${MAX_MODEL}`);
  }
  checkParameters(manifest);
}

/** A parameter that the mechanism does not have must be 0; the others are its own affair. */
function checkParameters(manifest: Manifest): void {
  const { name, parameters, check } = mechanismNamed(manifest.mechanism);
  const { directionsSeed, loud } = manifest;
  if (directionsSeed !== 0 && !parameters.includes("directionsSeed")) {
    throw new ProtocolError(`manifest: ${name} has no seed of directions`);
  }
  if (loud !== 0 && !parameters.includes("loud")) {
    throw new ProtocolError(`manifest: ${name} with ${loud} loud rows`);
  }
  check?.(manifest);
}

/** Bytes of everybody's batch in this epoch. */
export function batchSize(manifest: Manifest): number {
  return HEADER + SEALED * manifest.reports;
}

/** Whether a device may report at this time, in Unix seconds. */
export function asksForReports(manifest: Manifest, now: number): boolean {
  return manifest.publicKey !== null && manifest.opens <= now && now < manifest.closes;
}
