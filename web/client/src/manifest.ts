/** The manifest: everything that a device must know about one epoch, signed by the server. */

import { checkShape, MAX_ALPHA, MAX_ITEMS, MAX_RIDGE, MIN_RIDGE } from "./bounds.js";
import { hashSha256, isEqual } from "./bytes.js";
import type { Manifest, Provenance, SignedManifest } from "./epoch.js";
import { ProtocolError } from "./errors.js";
import * as strict from "./json.js";
import { findMechanism } from "./mechanism/registry.js";
import { computeMaxSignedBytes, openSigned, type SignedKind } from "./signing.js";
import { MIN_LOUD_RATIO, parseTermsBlock } from "./terms.js";

/** Maximum size of a manifest without its signatures. */
const MAX_MANIFEST_BYTES = 16_384;
/** The only HPKE suite of version 2 of the protocol. */
export const HPKE_SUITE = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM";
const PROTOCOL_VERSION = 2;
const MAX_EPOCH_NUMBER = 2 ** 32 - 1;
const DATE_PATTERN = /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$/;
/** Maximum number of directions: an index and a sign bit must fit into four bytes. */
const MAX_DIRECTIONS = 2 ** 31;
const MANIFEST_KEYS = [
  ...["version", "suite", "epoch", "terms", "items", "alpha", "regularization", "model"],
  ...["catalogue", "public_key", "token_key", "next_token_key", "opens", "closes"],
  ...["epochs_left", "reports_behind", "start", "model_patch", "catalogue_patch"],
];

/**
 * Decode a manifest. Throws a `ProtocolError` if it is not valid or no device could report under
 * it.
 */
export function decodeManifest(raw: Uint8Array): Manifest {
  const fields = strict.parseObject(raw, MAX_MANIFEST_BYTES, "manifest");
  if (fields.version !== PROTOCOL_VERSION || fields.suite !== HPKE_SUITE) {
    const [version, suite] = [strict.formatValue(fields.version), strict.formatValue(fields.suite)];
    throw new ProtocolError(
      `manifest: version ${version} and suite ${suite} must be ${PROTOCOL_VERSION} and ${HPKE_SUITE}`,
    );
  }
  strict.checkKeys(fields, MANIFEST_KEYS, "manifest");
  const manifest = parseFields(fields);
  checkConsistency(manifest);
  return manifest;
}

function parseFields(fields: strict.Fields): Manifest {
  const whole = (name: string, min: number, max = Number.MAX_SAFE_INTEGER) =>
    strict.parseWhole(fields[name], min, max, `manifest: ${name}`);
  const real = (name: string, min: number, max: number) =>
    strict.parseReal(fields[name], min, max, `manifest: ${name}`);
  const bytes = (name: string) => strict.parseHex(fields[name], `manifest: ${name}`);
  const optional = (name: string) => (fields[name] === null ? null : bytes(name));
  return {
    epoch: whole("epoch", 1, MAX_EPOCH_NUMBER),
    terms: parseTermsBlock(fields.terms),
    items: whole("items", 1, MAX_ITEMS),
    alpha: real("alpha", 0, MAX_ALPHA),
    regularization: real("regularization", MIN_RIDGE, MAX_RIDGE),
    model: bytes("model"),
    catalogue: bytes("catalogue"),
    modelPatch: optional("model_patch"),
    cataloguePatch: optional("catalogue_patch"),
    publicKey: optional("public_key"),
    tokenKey: optional("token_key"),
    nextTokenKey: optional("next_token_key"),
    opens: whole("opens", 0),
    closes: whole("closes", 0),
    epochsLeft: whole("epochs_left", 0),
    reportsBehind: whole("reports_behind", 0),
    start: fields.start === null ? null : parseStart(fields.start),
  };
}

function parseStart(fields: unknown): Provenance {
  strict.checkKeys(fields, ["name", "people", "last_date", "licence"], "start");
  const text = (name: string, max: number) => strict.parseText(fields[name], max, `start: ${name}`);
  const lastDate = fields.last_date === null ? null : text("last_date", 10);
  if (lastDate !== null && !DATE_PATTERN.test(lastDate)) {
    throw new ProtocolError("start: last_date: must be YYYY-MM-DD");
  }
  const people = strict.parseWhole(fields.people, 1, Number.MAX_SAFE_INTEGER, "start: people");
  return { name: text("name", 128), people, lastDate, licence: text("licence", 512) };
}

/** Refuse a manifest under which no device could report. All devices decide this alike. */
function checkConsistency(manifest: Manifest): void {
  const { opens, closes, items, terms } = manifest;
  if (opens >= closes) throw new ProtocolError("manifest: the epoch closes before it opens");
  if (items > terms.maxItems) {
    throw new ProtocolError(
      `manifest: it has ${items} items, but the terms allow ${terms.maxItems}`,
    );
  }
  checkTokenKeys(manifest);
  checkShape(items, terms.factors);
  checkMechanism(manifest);
}

/**
 * Check that the token keys fit the terms.
 *
 * With accounts, an epoch that asks for reports must have a token key, and the next epoch another
 * one. Without accounts there must be no token keys.
 */
function checkTokenKeys({ terms, publicKey, tokenKey, nextTokenKey }: Manifest): void {
  const isWrong = terms.accounts
    ? tokenKey === null
      ? publicKey !== null
      : nextTokenKey !== null && isEqual(tokenKey, nextTokenKey)
    : tokenKey !== null || nextTokenKey !== null;
  if (isWrong) {
    throw new ProtocolError("manifest: each epoch must have its own token key, or none");
  }
}

/**
 * Check the parameters of the mechanism: their ranges, the number of directions, and the share of
 * loud ones.
 */
function checkMechanism(manifest: Manifest): void {
  const { terms } = manifest;
  const { parameters, countDirections, computeLoudFraction } = findMechanism(terms.mechanism);
  for (const [name, rule] of Object.entries(parameters)) {
    const [min, max] = [rule.minIn(manifest), rule.maxIn(manifest)];
    const value = strict.parseWhole(terms.parameters[name], min, max, `terms: ${name}`);
    if (rule.isPowerOfTwo && value !== 2 ** Math.round(Math.log2(value))) {
      throw new ProtocolError(`terms: ${name}: must be a power of two, not ${value}`);
    }
  }
  const directions = countDirections(manifest);
  if (directions > MAX_DIRECTIONS || !Number.isInteger(directions)) {
    throw new ProtocolError(
      `manifest: ${directions} directions do not fit a four-byte report (at most ${MAX_DIRECTIONS})`,
    );
  }
  if (computeLoudFraction(manifest) > terms.loudFraction) {
    throw new ProtocolError("manifest: more directions are loud than the terms allow");
  }
  // With fewer loud directions, a device is hidden better in a crowd, but worse among dummies. So
  // with dummies, the number of loud directions must be the stated one, rounded down. Every promise
  // includes the loss by this rounding.
  const oneMore = computeLoudFraction(manifest) + 0.5 / directions;
  const minFraction = MIN_LOUD_RATIO * terms.loudFraction;
  const tooFew = oneMore <= terms.loudFraction || computeLoudFraction(manifest) < minFraction;
  if (terms.dummies > 0 && tooFew) {
    throw new ProtocolError("manifest: fewer directions are loud than the terms require");
  }
}

const SIGNED_KIND: SignedKind = { name: "manifest", magic: "SVM2", maxBytes: MAX_MANIFEST_BYTES };
export const MAX_SIGNED_MANIFEST_BYTES = computeMaxSignedBytes(SIGNED_KIND);

export async function openManifest(data: Uint8Array, trusted: Uint8Array): Promise<SignedManifest> {
  const { text, key, raw } = await openSigned(SIGNED_KIND, data, trusted);
  return { manifest: decodeManifest(text), hash: await hashSha256(text), key, raw };
}
