/** Strict JSON: one meaning for every file, on every machine, in every language. */

import { type Bytes, fromHex } from "./bytes.js";
import { ProtocolError } from "./errors.js";

/** Keys and values as they were read; nothing is known about the values yet. */
export type Fields = Record<string, unknown>;

/** No file of the protocol nests deeper than a few levels. */
const DEEPEST = 64;
const HEXADECIMAL = /^(?:[0-9a-f]{2})*$/;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const HALF_OF_A_PAIR = /\p{Surrogate}/u;
/** Line separators and bidirectional controls are among them. */
const CONTROL = /[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu;

// A byte order mark is not dropped but read as a character, which no JSON may begin with.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A JSON object in UTF-8: no repeated key, at most `most` bytes. */
export function readObject(raw: Uint8Array, most: number, what: string): Fields {
  if (raw.length > most) {
    throw new ProtocolError(`${what}: ${raw.length} bytes, at most ${most} are read`);
  }
  const value = parsed(raw, what);
  if (!isObject(value)) throw new ProtocolError(`${what}: not a JSON object`);
  return value;
}

function parsed(raw: Uint8Array, what: string): unknown {
  try {
    const text = decoder.decode(raw);
    const value: unknown = JSON.parse(text);
    // JSON.parse keeps the last of two like keys, so a repeated key leaves fewer keys than colons.
    if (countKeys(value, 0) !== countColons(text)) throw new SyntaxError("a key is repeated");
    return value;
  } catch (error) {
    const reason = error instanceof Error ? error.message.slice(0, 200) : "unreadable";
    throw new ProtocolError(`${what}: not JSON as the protocol has it: ${reason}`);
  }
}

/** Colons outside of strings: as many as keys were written. For text that is JSON already. */
function countColons(text: string): number {
  let colons = 0;
  let inside = false;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (inside && unit === BACKSLASH) at++;
    else if (unit === QUOTE) inside = !inside;
    else if (unit === COLON && !inside) colons++;
  }
  return colons;
}

function countKeys(value: unknown, depth: number): number {
  if (typeof value !== "object" || value === null) return 0;
  if (depth > DEEPEST) throw new RangeError("nested too deep");
  const inner = Object.values(value);
  let keys = Array.isArray(value) ? 0 : inner.length;
  for (const one of inner) keys += countKeys(one, depth + 1);
  return keys;
}

export function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A refused value, for a message: short, and never unrolled. */
export function shown(value: unknown): string {
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (isObject(value)) return `an object of ${Object.keys(value).length}`;
  if (typeof value !== "string") return String(value).slice(0, 80);
  return JSON.stringify(value.slice(0, 80)).replace(CONTROL, escaped).slice(0, 80);
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** Refuse what is missing and what is unknown. */
export function exactKeys(value: Fields, keys: readonly string[], what: string): void {
  const missing = keys.filter((key) => !Object.hasOwn(value, key));
  const unknown = Object.keys(value).filter((key) => !keys.includes(key));
  if (missing.length + unknown.length > 0) {
    const known = `missing [${missing.join(", ")}], unknown [${unknown.join(", ")}]`;
    throw new ProtocolError(`${what}: ${known.slice(0, 400)}`);
  }
}

/** A whole number within its range. `3.0` cannot be told from `3` here, as the protocol allows. */
export function whole(value: unknown, least: number, most: number, what: string): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < least || value > most) {
    throw new ProtocolError(`${what}: a whole number in ${least}..${most}, not ${shown(value)}`);
  }
  return value + 0; // -0 becomes 0
}

export function real(value: unknown, least: number, most: number, what: string): number {
  if (typeof value !== "number" || !(least <= value && value <= most)) {
    throw new ProtocolError(`${what}: a number in ${least}..${most}, not ${shown(value)}`);
  }
  return value + 0;
}

export function boolean(value: unknown, what: string): boolean {
  if (typeof value !== "boolean") {
    throw new ProtocolError(`${what}: true or false, not ${shown(value)}`);
  }
  return value;
}

/** A string of 1..`most` Unicode code points, none of which commands a terminal. */
export function text(value: unknown, most: number, what: string): string {
  // A code point has at most two units: no long string is taken apart to be counted.
  if (typeof value !== "string" || value.length > 2 * most) {
    throw new ProtocolError(`${what}: a string of 1..${most} characters, not ${shown(value)}`);
  }
  const length = [...value].length;
  if (length < 1 || length > most) {
    throw new ProtocolError(`${what}: a string of 1..${most} characters, not of ${length}`);
  }
  if (HALF_OF_A_PAIR.test(value)) {
    throw new ProtocolError(`${what}: half of a surrogate pair is not a character`);
  }
  if (value.search(CONTROL) >= 0) {
    throw new ProtocolError(`${what}: a control character in ${shown(value)}`);
  }
  return value;
}

/** So many bytes in lower-case hexadecimal; 32, if nothing is said. */
export function hexadecimal(value: unknown, what: string, size = 32): Bytes {
  if (typeof value !== "string" || value.length !== 2 * size || !HEXADECIMAL.test(value)) {
    throw new ProtocolError(
      `${what}: ${2 * size} lower-case hexadecimal digits, not ${shown(value)}`,
    );
  }
  return fromHex(value);
}
