/**
 * The manifest as it is served: signed, with the statements that lead to the signing key.
 *
 *     0     4  "SVM2"
 *     4     1  number n of key statements, 0..32
 *     5   96n  statements: the next verification key (32), signed by the key before it (64)
 *     .    64  signature of the manifest by the last key
 *     .     .  the manifest
 *
 * Every signature is Ed25519, over a text that says what it means, a zero byte, and what is signed. A
 * reader that trusts a key follows the statements from there, and trusts the last key from then on:
 * never back.
 */

import { type Bytes, concat, equal, owned, sha256, toHex, utf8 } from "./bytes.js";
import { ProtocolError, UntrustedError } from "./errors.js";
import { decodeManifest, MAX_MANIFEST, type Manifest } from "./manifest.js";

/** A manifest whose signature was checked. */
export interface SignedManifest {
  readonly manifest: Manifest;
  /** SHA-256 of the manifest's bytes, without signatures: names the epoch everywhere. */
  readonly hash: Bytes;
  /** The verification key that signed it: what a reader trusts from now on. */
  readonly key: Bytes;
  /** As served. */
  readonly raw: Bytes;
}

/** The owner of one verification key names the next. */
interface KeyStatement {
  key: Bytes;
  signature: Bytes;
}

const MAGIC = utf8("SVM2");
const SIGNED_MANIFEST = utf8("sottovoce manifest 2\0");
/** Before the key that signs and the next one. */
const SIGNED_KEY = utf8("sottovoce key 2\0");
const KEY = 32;
const SIGNATURE = 64;
const STATEMENT = KEY + SIGNATURE;
const MOST_STATEMENTS = 32;
const HEADER = MAGIC.length + 1;
/** Bytes of the longest signed manifest. */
export const MAX_SIGNED_MANIFEST = HEADER + MOST_STATEMENTS * STATEMENT + SIGNATURE + MAX_MANIFEST;

/** Check the signature first; nothing of an unsigned manifest is ever looked at. */
export async function openManifest(data: Uint8Array, trusted: Uint8Array): Promise<SignedManifest> {
  const raw = new Uint8Array(data);
  const { statements, signature, text } = split(raw);
  const key = await lastKey(owned(trusted), statements);
  if (!(await isSigned(key, signature, concat([SIGNED_MANIFEST, text])))) {
    throw new UntrustedError(
      "the manifest is not signed by the server that this device knows; nothing is sent",
    );
  }
  return { manifest: decodeManifest(text), hash: await sha256(text), key, raw };
}

function split(raw: Bytes): { statements: KeyStatement[]; signature: Bytes; text: Bytes } {
  if (!equal(raw.subarray(0, MAGIC.length), MAGIC) || raw.length <= HEADER) {
    throw new ProtocolError("signed manifest: bad magic or too short, expected SVM2");
  }
  const count = raw[MAGIC.length] as number;
  const start = HEADER + count * STATEMENT;
  const fits = start + SIGNATURE < raw.length && raw.length <= MAX_SIGNED_MANIFEST;
  if (count > MOST_STATEMENTS || !fits) {
    throw new ProtocolError(
      `signed manifest: ${raw.length} bytes cannot have ${count} statements and a manifest`,
    );
  }
  const statements = Array.from({ length: count }, (_, number) => {
    const at = HEADER + number * STATEMENT;
    return { key: raw.slice(at, at + KEY), signature: raw.slice(at + KEY, at + STATEMENT) };
  });
  const end = start + SIGNATURE;
  return { statements, signature: raw.slice(start, end), text: raw.slice(end) };
}

/** From the trusted key along the statements; those before it are not looked at. */
async function lastKey(trusted: Bytes, statements: readonly KeyStatement[]): Promise<Bytes> {
  const known = statements.map(({ key }) => toHex(key)).lastIndexOf(toHex(trusted));
  let key = trusted;
  for (const next of statements.slice(known + 1)) {
    if (!(await isSigned(key, next.signature, concat([SIGNED_KEY, key, next.key])))) {
      throw new UntrustedError(
        "a key statement is not signed by the server that this device knows; nothing is sent",
      );
    }
    key = next.key;
  }
  return key;
}

async function isSigned(key: Bytes, signature: Bytes, message: Bytes): Promise<boolean> {
  if (key.length !== KEY) return false;
  let verifier: CryptoKey;
  try {
    verifier = await crypto.subtle.importKey("raw", key, "Ed25519", false, ["verify"]);
  } catch (error) {
    throw new UntrustedError(
      "the server's signature cannot be checked: its key is none, or this browser is too old for " +
        "Ed25519; nothing is sent",
      { cause: error },
    );
  }
  return crypto.subtle.verify("Ed25519", verifier, signature, message);
}
