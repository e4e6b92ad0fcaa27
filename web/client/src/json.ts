/** Strict JSON: every file has the same meaning on all machines and in all languages. */

import { type Bytes, fromHex } from "./bytes.js";
import { ProtocolError } from "./errors.js";

/** Keys and values as they were read; the values are not checked yet. */
export type Fields = Record<string, unknown>;

/** Maximum depth. Files of the protocol have only a few levels. */
const MAX_DEPTH = 64;
const HEX_PATTERN = /^(?:[0-9a-f]{2})*$/;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
/** Control characters, line separators, bidirectional controls, and halves of surrogate pairs. */
const CONTROL_CHARACTERS = /[\p{Cc}\p{Cs}\u2028-\u202e\u2066-\u2069]/gu;

// With `ignoreBOM`, a byte order mark stays in the text, so `JSON.parse` refuses it.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Parse a JSON object in UTF-8 of at most `maxBytes` bytes. `what` names the file in errors.
 * Repeated keys are refused.
 */
export function parseObject(raw: Uint8Array, maxBytes: number, what: string): Fields {
  if (raw.length > maxBytes) {
    throw new ProtocolError(`${what}: ${raw.length} bytes, but at most ${maxBytes} are allowed`);
  }
  const value = parseStrictly(raw, what);
  if (!isObject(value)) throw createValueError(what, "a JSON object", value);
  return value;
}

function parseStrictly(raw: Uint8Array, what: string): unknown {
  try {
    const text = decoder.decode(raw);
    const value: unknown = JSON.parse(text);
    // `JSON.parse` drops the first of two equal keys, so after a repeated key there are fewer keys
    // than colons.
    if (countKeys(value, 0) !== countColons(text)) throw new SyntaxError("a key is repeated");
    return value;
  } catch (error) {
    const reason = error instanceof Error ? error.message.slice(0, 200) : "unreadable";
    throw new ProtocolError(`${what}: it is not JSON as the protocol requires: ${reason}`);
  }
}

/** Count the colons outside of strings in valid JSON: there is one for each key. */
function countColons(text: string): number {
  let colons = 0;
  let isInString = false;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (isInString && unit === BACKSLASH) at++;
    else if (unit === QUOTE) isInString = !isInString;
    else if (unit === COLON && !isInString) colons++;
  }
  return colons;
}

function countKeys(value: unknown, depth: number): number {
  if (typeof value !== "object" || value === null) return 0;
  if (depth > MAX_DEPTH) throw new RangeError("nested too deep");
  const inner = Object.values(value);
  let keys = Array.isArray(value) ? 0 : inner.length;
  for (const child of inner) keys += countKeys(child, depth + 1);
  return keys;
}

export function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Format a refused value for an error message, with at most 80 characters. */
export function formatValue(value: unknown): string {
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (isObject(value)) return `an object of ${Object.keys(value).length}`;
  if (typeof value !== "string") return String(value).slice(0, 80);
  return JSON.stringify(value.slice(0, 80))
    .replace(CONTROL_CHARACTERS, escapeCharacter)
    .slice(0, 80);
}

function escapeCharacter(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** Throw a `ProtocolError` unless a value is an object with exactly these keys. */
export function checkKeys(
  value: unknown,
  keys: readonly string[],
  what: string,
): asserts value is Fields {
  if (!isObject(value)) throw createValueError(what, "a JSON object", value);
  const missing = keys.filter((key) => !Object.hasOwn(value, key));
  const unknown = Object.keys(value).filter((key) => !keys.includes(key));
  if (missing.length + unknown.length > 0) {
    const problem = `missing keys [${missing.join(", ")}], unknown keys [${unknown.join(", ")}]`;
    throw new ProtocolError(`${what}: ${problem.slice(0, 400)}`);
  }
}

/**
 * Return a whole number within a range. `3.0` and `3` are the same number here, as the protocol
 * allows.
 */
export function parseWhole(value: unknown, min: number, max: number, what: string): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < min || value > max) {
    throw createValueError(what, `a whole number in ${min}..${max}`, value);
  }
  return value + 0; // turns -0 into 0
}

export function parseReal(value: unknown, min: number, max: number, what: string): number {
  if (typeof value !== "number" || !(min <= value && value <= max)) {
    throw createValueError(what, `a number in ${min}..${max}`, value);
  }
  return value + 0;
}

export function parseBoolean(value: unknown, what: string): boolean {
  if (typeof value !== "boolean") throw createValueError(what, "true or false", value);
  return value;
}

/** Return a string of 1 to `maxLength` Unicode code points without control characters. */
export function parseText(value: unknown, maxLength: number, what: string): string {
  // A code point has at most two UTF-16 units. So this check refuses very long strings before they
  // are split.
  const isShort = typeof value === "string" && value.length <= 2 * maxLength;
  if (!isShort || value === "" || [...value].length > maxLength) {
    throw createValueError(what, `a string of 1..${maxLength} characters`, value);
  }
  if (value.search(CONTROL_CHARACTERS) >= 0) {
    throw createValueError(what, "a string without control characters", value);
  }
  return value;
}

/** Decode lower-case hexadecimal digits of exactly `size` bytes. */
export function parseHex(value: unknown, what: string, size = 32): Bytes {
  if (typeof value !== "string" || value.length !== 2 * size || !HEX_PATTERN.test(value)) {
    throw createValueError(what, `${2 * size} lower-case hexadecimal digits`, value);
  }
  return fromHex(value);
}

/** Create the error for a value that is not what it must be. */
function createValueError(what: string, expected: string, value: unknown): ProtocolError {
  return new ProtocolError(`${what}: must be ${expected}, not ${formatValue(value)}`);
}
