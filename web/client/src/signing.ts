/**
 * Signed files as they are served: a manifest or a shelf, with the key statements that lead to the
 * signing key. A proxy or a cache can withhold a signed file, but not change it.
 *
 *     0     4  magic of the kind of file
 *     4     1  number n of key statements, 0..32
 *     5   96n  statements: the next verification key (32), signed by the key before it (64)
 *     .    64  signature by the last key
 *     .     .  the text that is signed
 *
 * Every signature is Ed25519, over a prefix that says what is signed, a zero byte, and the text. A
 * reader follows the statements from the key that it trusts.
 */

import { type Bytes, concatenate, encodeUtf8, isEqual, toHex, toOwnBuffer } from "./bytes.js";
import { ProtocolError, UntrustedError } from "./errors.js";

/** A kind of signed file. */
export interface SignedKind {
  readonly name: string;
  readonly magic: string;
  /** Maximum size of the text that is signed. */
  readonly maxBytes: number;
}

/** A statement in which the owner of one verification key names the next one. */
interface KeyStatement {
  key: Bytes;
  signature: Bytes;
}

/** Prefix of a signed key statement; the signing key and the next key follow it. */
const KEY_STATEMENT_PREFIX = encodeUtf8("sottovoce key 2\0");
const KEY_BYTES = 32;
const SIGNATURE_BYTES = 64;
const STATEMENT_BYTES = KEY_BYTES + SIGNATURE_BYTES;
const MAX_STATEMENTS = 32;
const MAGIC_BYTES = 4;
const HEADER_BYTES = MAGIC_BYTES + 1;

/** Return the maximum size in bytes of a signed file of this kind. */
export function computeMaxSignedBytes({ maxBytes }: SignedKind): number {
  return HEADER_BYTES + MAX_STATEMENTS * STATEMENT_BYTES + SIGNATURE_BYTES + maxBytes;
}

/**
 * Check the signature of a file, and return its text and the key that signed it. Only signed text
 * is decoded.
 *
 * Throws a `ProtocolError` or an `UntrustedError`.
 */
export async function openSigned(
  kind: SignedKind,
  data: Uint8Array,
  trusted: Uint8Array,
): Promise<{ text: Bytes; key: Bytes; raw: Bytes }> {
  const raw = new Uint8Array(data);
  const { statements, signature, text } = splitSigned(kind, raw);
  const key = await followStatements(kind, toOwnBuffer(trusted), statements);
  if (
    !(await isSigned(key, signature, concatenate([encodeUtf8(`sottovoce ${kind.name} 2\0`), text])))
  ) {
    throw new UntrustedError(
      `signed ${kind.name}: it is signed neither by the pinned verification key nor by a key that it has ` +
        "named; compare it with the operator's",
    );
  }
  return { text, key, raw };
}

function splitSigned(
  kind: SignedKind,
  raw: Bytes,
): { statements: KeyStatement[]; signature: Bytes; text: Bytes } {
  if (
    !isEqual(raw.subarray(0, MAGIC_BYTES), encodeUtf8(kind.magic)) ||
    raw.length <= HEADER_BYTES
  ) {
    throw new ProtocolError(
      `signed ${kind.name}: it must begin with ${kind.magic} and contain a signature`,
    );
  }
  const count = raw[MAGIC_BYTES] as number;
  const start = HEADER_BYTES + count * STATEMENT_BYTES;
  const hasValidSize =
    start + SIGNATURE_BYTES < raw.length && raw.length <= computeMaxSignedBytes(kind);
  if (count > MAX_STATEMENTS || !hasValidSize) {
    throw new ProtocolError(
      `signed ${kind.name}: ${raw.length} bytes cannot have ${count} key statements`,
    );
  }
  const statements = Array.from({ length: count }, (_, number) => {
    const at = HEADER_BYTES + number * STATEMENT_BYTES;
    return {
      key: raw.slice(at, at + KEY_BYTES),
      signature: raw.slice(at + KEY_BYTES, at + STATEMENT_BYTES),
    };
  });
  const end = start + SIGNATURE_BYTES;
  return { statements, signature: raw.slice(start, end), text: raw.slice(end) };
}

/**
 * Follow the key statements from the trusted key to the signing key. Statements before the trusted
 * key are skipped.
 */
async function followStatements(
  kind: SignedKind,
  trusted: Bytes,
  statements: readonly KeyStatement[],
): Promise<Bytes> {
  const trustedPlace = statements.map(({ key }) => toHex(key)).lastIndexOf(toHex(trusted));
  let key = trusted;
  for (const next of statements.slice(trustedPlace + 1)) {
    if (
      !(await isSigned(key, next.signature, concatenate([KEY_STATEMENT_PREFIX, key, next.key])))
    ) {
      throw new UntrustedError(
        `signed ${kind.name}: a key statement is not signed by a trusted key`,
      );
    }
    key = next.key;
  }
  return key;
}

async function isSigned(key: Bytes, signature: Bytes, message: Bytes): Promise<boolean> {
  if (key.length !== KEY_BYTES) return false;
  let verifier: CryptoKey;
  try {
    verifier = await crypto.subtle.importKey("raw", key, "Ed25519", false, ["verify"]);
  } catch (error) {
    throw new UntrustedError(
      "the server's signature cannot be checked: its key is not valid, or this browser is too old " +
        "for Ed25519; use a newer one",
      { cause: error },
    );
  }
  return crypto.subtle.verify("Ed25519", verifier, signature, message);
}
