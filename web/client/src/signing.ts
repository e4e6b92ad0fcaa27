/**
 * What the server signs, as it is served: a manifest or a shelf, with the statements that lead to the signing
 * key. Whoever hands it on (the proxy, a cache) can withhold it, but not change it.
 *
 *     0     4  magic, which says what it is
 *     4     1  number n of key statements, 0..32
 *     5   96n  statements: the next verification key (32), signed by the key before it (64)
 *     .    64  signature by the last key
 *     .     .  what is signed
 *
 * Every signature is Ed25519, over a text that says what it means, a zero byte, and what is signed. A
 * reader follows the statements from the key that it trusts.
 */

import { type Bytes, concat, equal, owned, toHex, utf8 } from "./bytes.js";
import { ProtocolError, UntrustedError } from "./errors.js";

/** What can be signed. */
export interface Kind {
  readonly name: string;
  readonly magic: string;
  /** Bytes of what is signed. */
  readonly most: number;
}

/** The owner of one verification key names the next. */
interface KeyStatement {
  key: Bytes;
  signature: Bytes;
}

/** Before the key that signs and the next one. */
const SIGNED_KEY = utf8("sottovoce key 2\0");
const KEY = 32;
const SIGNATURE = 64;
const STATEMENT = KEY + SIGNATURE;
const MOST_STATEMENTS = 32;
const MAGIC = 4;
const HEADER = MAGIC + 1;

/** Bytes of the longest one, as it is served. */
export function mostBytes({ most }: Kind): number {
  return HEADER + MOST_STATEMENTS * STATEMENT + SIGNATURE + most;
}

/** Check the signature first; nothing of what is not signed is ever looked at. */
export async function openSigned(
  kind: Kind,
  data: Uint8Array,
  trusted: Uint8Array,
): Promise<{ text: Bytes; key: Bytes; raw: Bytes }> {
  const raw = new Uint8Array(data);
  const { statements, signature, text } = split(kind, raw);
  const key = await lastKey(owned(trusted), statements);
  if (!(await isSigned(key, signature, concat([utf8(`sottovoce ${kind.name} 2\0`), text])))) {
    throw new UntrustedError(
      `the ${kind.name} is not signed by the server whose key this page has; no report is made of it. Whoever ` +
        "built the page compares its key with the server's verification key",
    );
  }
  return { text, key, raw };
}

function split(
  kind: Kind,
  raw: Bytes,
): { statements: KeyStatement[]; signature: Bytes; text: Bytes } {
  if (!equal(raw.subarray(0, MAGIC), utf8(kind.magic)) || raw.length <= HEADER) {
    throw new ProtocolError(`signed ${kind.name}: bad magic or too short, expected ${kind.magic}`);
  }
  const count = raw[MAGIC] as number;
  const start = HEADER + count * STATEMENT;
  const fits = start + SIGNATURE < raw.length && raw.length <= mostBytes(kind);
  if (count > MOST_STATEMENTS || !fits) {
    throw new ProtocolError(
      `signed ${kind.name}: ${raw.length} bytes cannot have ${count} statements`,
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
        "a key statement is not signed by the server that this device knows; no report is made of it",
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
        "Ed25519; no report is made of it",
      { cause: error },
    );
  }
  return crypto.subtle.verify("Ed25519", verifier, signature, message);
}
