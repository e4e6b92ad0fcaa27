/** Bytes and their conversions. */

/** Bytes in a buffer of their own, as WebCrypto and IndexedDB require. */
export type Bytes = Uint8Array<ArrayBuffer>;

const encoder = new TextEncoder();

export function toHex(data: Uint8Array): string {
  let text = "";
  for (const byte of data) text += byte.toString(16).padStart(2, "0");
  return text;
}

/** Decode hexadecimal digits that were checked before (see `parseHex` in `json`). */
export function fromHex(text: string): Bytes {
  const data = new Uint8Array(text.length / 2);
  for (let at = 0; at < data.length; at++) {
    data[at] = Number.parseInt(text.slice(2 * at, 2 * at + 2), 16);
  }
  return data;
}

export function concatenate(parts: readonly Uint8Array[]): Bytes {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/**
 * Check whether two byte strings are equal. Only for public values: the time depends on the first
 * difference.
 */
export function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

export function encodeUtf8(text: string): Bytes {
  return new Uint8Array(encoder.encode(text));
}

/**
 * Return these bytes in a buffer that is not shared. They are copied only if their buffer is shared
 * with another thread.
 */
export function toOwnBuffer(data: Uint8Array): Bytes {
  const { buffer, byteOffset, byteLength } = data;
  if (buffer instanceof ArrayBuffer) return new Uint8Array(buffer, byteOffset, byteLength);
  return new Uint8Array(data);
}

export async function hashSha256(data: Uint8Array): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", toOwnBuffer(data)));
}
