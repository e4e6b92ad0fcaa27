/** The manifest: everything that a device must know of one epoch, signed by the server. */

import { equal, sha256 } from "./bytes.js";
import type { Manifest, SignedManifest } from "./epoch.js";
import { ProtocolError } from "./errors.js";
import * as strict from "./json.js";
import { mechanismNamed } from "./mechanism/registry.js";
import { checkShape, LEAST_RIDGE, MOST_ALPHA, MOST_ITEMS, MOST_RIDGE } from "./model.js";
import { type Kind, mostBytes, openSigned } from "./signing.js";
import { MIN_LOUD_RATIO, readTerms } from "./terms.js";

/** Bytes of the longest manifest, without signatures. */
const MAX_MANIFEST = 16_384;
/** The only suite of version 2. */
export const SUITE = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM";
const VERSION = 2;
const MAX_EPOCH = 2 ** 32 - 1;
/** An index and its bit must fit four bytes. */
const MAX_DIRECTIONS = 2 ** 31;
const KEYS = [
  ...["version", "suite", "epoch", "terms", "items", "alpha", "regularization", "model"],
  ...["catalogue", "public_key", "token_key", "next_token_key", "opens", "closes"],
  ...["epochs_left", "reports_behind"],
];

/** Any bytes give a manifest that can work, or a `ProtocolError`. */
export function decodeManifest(raw: Uint8Array): Manifest {
  const given = strict.readObject(raw, MAX_MANIFEST, "manifest");
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
  const whole = (name: string, least: number, most = Number.MAX_SAFE_INTEGER) =>
    strict.whole(given[name], least, most, `manifest: ${name}`);
  const real = (name: string, least: number, most: number) =>
    strict.real(given[name], least, most, `manifest: ${name}`);
  const bytes = (name: string) => strict.hexadecimal(given[name], `manifest: ${name}`);
  const key = (name: string) => (given[name] === null ? null : bytes(name));
  return {
    epoch: whole("epoch", 1, MAX_EPOCH),
    terms: readTerms(given.terms),
    items: whole("items", 1, MOST_ITEMS),
    alpha: real("alpha", 0, MOST_ALPHA),
    regularization: real("regularization", LEAST_RIDGE, MOST_RIDGE),
    model: bytes("model"),
    catalogue: bytes("catalogue"),
    publicKey: key("public_key"),
    tokenKey: key("token_key"),
    nextTokenKey: key("next_token_key"),
    opens: whole("opens", 0),
    closes: whole("closes", 0),
    epochsLeft: whole("epochs_left", 0),
    reportsBehind: whole("reports_behind", 0),
  };
}

/** A manifest that no device could report with is refused by all of them alike. */
function checkTogether(manifest: Manifest): void {
  const { opens, closes, items, terms } = manifest;
  if (opens >= closes) throw new ProtocolError("manifest: the epoch closes before it opens");
  if (items > terms.mostItems) {
    throw new ProtocolError(`manifest: ${items} items, the terms allow ${terms.mostItems}`);
  }
  checkTokenKeys(manifest);
  checkShape(items, terms.factors);
  checkMechanism(manifest);
}

/** With accounts whoever is asked for reports can have a token, and for each epoch another one. */
function checkTokenKeys({ terms, publicKey, tokenKey, nextTokenKey }: Manifest): void {
  const isWrong = terms.accounts
    ? tokenKey === null
      ? publicKey !== null
      : nextTokenKey !== null && equal(tokenKey, nextTokenKey)
    : tokenKey !== null || nextTokenKey !== null;
  if (isWrong) throw new ProtocolError("manifest: keys of tokens against the terms");
}

/** Ranges that depend on the size of the model, the size of a report, and the promise. */
function checkMechanism(manifest: Manifest): void {
  const { terms } = manifest;
  const { parameters, directions, loudFraction } = mechanismNamed(terms.mechanism);
  for (const [name, { least, most, isPowerOfTwo }] of Object.entries(parameters)) {
    const value = strict.whole(terms.parameters[name], least, most(manifest), `terms: ${name}`);
    if (isPowerOfTwo && value !== 2 ** Math.round(Math.log2(value))) {
      throw new ProtocolError(`terms: ${name}: a power of two, not ${value}`);
    }
  }
  if (directions(manifest) > MAX_DIRECTIONS) {
    throw new ProtocolError(`manifest: ${directions(manifest)} directions do not fit a report`);
  }
  if (loudFraction(manifest) > terms.loudFraction) {
    throw new ProtocolError("manifest: more directions are loud than the terms allow");
  }
  // In a crowd fewer loud directions hide better, but among dummies worse: there they are the stated ones,
  // rounded down. What rounding may cost is part of every promise.
  const oneMore = loudFraction(manifest) + 0.5 / directions(manifest);
  const least = MIN_LOUD_RATIO * terms.loudFraction;
  const tooFew = oneMore <= terms.loudFraction || loudFraction(manifest) < least;
  if (terms.dummies > 0 && tooFew) {
    throw new ProtocolError("manifest: fewer directions are loud than the terms say");
  }
}

const SIGNED: Kind = { name: "manifest", magic: "SVM2", most: MAX_MANIFEST };
/** Bytes of the longest signed manifest. */
export const MAX_SIGNED_MANIFEST = mostBytes(SIGNED);

export async function openManifest(data: Uint8Array, trusted: Uint8Array): Promise<SignedManifest> {
  const { text, key, raw } = await openSigned(SIGNED, data, trusted);
  return { manifest: decodeManifest(text), hash: await sha256(text), key, raw };
}
