/** Bytes and their few conversions. */

import { ProtocolError } from "./errors.js";

/** Bytes in memory of their own, as WebCrypto and IndexedDB want them. */
export type Bytes = Uint8Array<ArrayBuffer>;

const HEXADECIMAL = /^(?:[0-9a-f]{2})*$/;
const encoder = new TextEncoder();

/** Lower-case hexadecimal. */
export function toHex(data: Uint8Array): string {
  let text = "";
  for (const byte of data) text += byte.toString(16).padStart(2, "0");
  return text;
}

/** The bytes of lower-case hexadecimal; anything else is a `ProtocolError`. */
export function fromHex(text: string): Bytes {
  if (!HEXADECIMAL.test(text)) throw new ProtocolError("this is not lower-case hexadecimal");
  const data = new Uint8Array(text.length / 2);
  for (let at = 0; at < data.length; at++) {
    data[at] = Number.parseInt(text.slice(2 * at, 2 * at + 2), 16);
  }
  return data;
}

/** One after the other. */
export function concat(parts: readonly Uint8Array[]): Bytes {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Whether two runs of bytes are the same. For public values: it stops at the first difference. */
export function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

/** A text as UTF-8. */
export function utf8(text: string): Bytes {
  return new Uint8Array(encoder.encode(text));
}

/** The same bytes; copied only if they lie in memory that is shared with another thread. */
export function owned(data: Uint8Array): Bytes {
  const { buffer, byteOffset, byteLength } = data;
  if (buffer instanceof ArrayBuffer) return new Uint8Array(buffer, byteOffset, byteLength);
  return new Uint8Array(data);
}

/** SHA-256. */
export async function sha256(data: Uint8Array): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", owned(data)));
}
