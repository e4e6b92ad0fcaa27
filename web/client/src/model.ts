/**
 * The item matrix: its file, its public bounds, and the user vector in closed form, which never leaves the
 * device.
 *
 * The order of every sum is that of docs/protocol.md (items ascending, factors ascending, one
 * rounding for each operation), so that every client gets the same bits. Plain arithmetic is
 * float64; `Math.fround` marks where it is float32.
 */

import { ProtocolError } from "./errors.js";
import { exactKeys, type Fields, isObject, readObject } from "./json.js";

/**
 * Public bounds within which nothing that a device computes from a history can fail.
 *
 * A device that stopped on a value that is not finite would answer by its silence: a server that
 * chooses V, alpha and lambda could make exactly those fall silent who touched one item. So whatever
 * depends on a history must have a result. Two rules are enough:
 *
 * 1. What a server chooses is held against the bounds below, from public bytes alone, before any
 *    history is read.
 * 2. A user vector with an entry that is not finite or beyond `MOST_USER_ENTRY` becomes zero: then
 *    its reports are those of somebody without a history (`usable`).
 *
 * From there every value is finite, in float32: with |v| <= 2^20, |x| <= 2^40, alpha <= 2^10,
 * F <= 2^8 and M <= 2^24 a prediction is below 2^68, a residual below 2^79, a gradient entry below
 * 2^120, a row of a block below 2^89. Float32 ends at 2^128.
 */

export const MOST_ITEMS = 2 ** 24;
export const MOST_FACTORS = 2 ** 8;
/** Items that a history holds, the latest: `lead` leaves time for reading so many. */
export const MOST_TOUCHED = 100_000;
/** M F: a model file of 256 MiB. */
const MOST_ENTRIES = 2 ** 26;
/** M F^2: multiplications for the normal equations, some seconds; the memory needed is M F. */
const MOST_PRODUCTS = 2 ** 32;
export const MOST_ALPHA = 2 ** 10;
export const LEAST_RIDGE = 1e-12;
export const MOST_RIDGE = 1e6;
/** Of |V|, where it is not 0: neither an entry nor a product of two is subnormal in float32. */
const LEAST_ENTRY = 2 ** -60;
const MOST_ENTRY = 2 ** 20;
const MOST_USER_ENTRY = 2 ** 40;

/** Refuse a model for which a device would need too much memory or time. */
export function checkShape(items: number, factors: number): void {
  if (items * factors > MOST_ENTRIES || items * factors ** 2 > MOST_PRODUCTS) {
    throw new ProtocolError(
      `manifest: ${items} items with ${factors} factors are too many for a device: at most ` +
        `${MOST_ENTRIES} entries, and ${MOST_PRODUCTS} products of two factors of an item`,
    );
  }
}

/** Whether an entry of the item matrix is 0 or of a size that devices can work with. */
function isWithinBounds(entry: number): boolean {
  const size = Math.abs(entry);
  return size === 0 || (size >= LEAST_ENTRY && size <= MOST_ENTRY); // a NaN is not
}

/** A user vector, or zero in its place where it is not finite or too long. */
export function usable(x: Float32Array): Float32Array {
  const isFine = x.every((entry) => Math.abs(entry) <= MOST_USER_ENTRY); // a NaN is not
  return isFine ? x : new Float32Array(x.length);
}

/**
 * The model file: V as float32 in the safetensors format, one tensor named `item_matrix`.
 *
 * Eight bytes (little endian) of header length, a JSON header, the numbers row by row.
 */

const NAME = "item_matrix";
const LENGTH = 8;
const LONGEST_HEADER = 4096;

/** No file of such a matrix is longer: what a reader may stop at. */
export function modelSize(items: number, factors: number): number {
  return LENGTH + LONGEST_HEADER + 4 * items * factors;
}

/** The matrix; it must have this shape and public bounds, else it is a `ProtocolError`. */
export function decodeItems(data: Uint8Array, rows: number, columns: number): Matrix {
  const floats = checkItems(data, rows, columns);
  const values = new Float32Array(rows * columns).map((_, at) => floats.getFloat32(4 * at, true));
  return { values, rows, columns };
}

/** Where the numbers of such a file lie, once all of them were looked at. */
export function checkItems(data: Uint8Array, items: number, factors: number): DataView {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const length = data.length < LENGTH ? -1 : Number(view.getBigUint64(0, true));
  if (length < 0 || length > LONGEST_HEADER || data.length < LENGTH + length) {
    throw new ProtocolError("model file: its header is missing or too long");
  }
  const start = LENGTH + length;
  const header = readObject(data.subarray(LENGTH, start), LONGEST_HEADER, "model file");
  const size = 4 * items * factors;
  if (!describes(header, items, factors) || data.length !== start + size) {
    throw new ProtocolError(
      `model file: not one float32 tensor '${NAME}' of ${items} x ${factors} in ${size} bytes`,
    );
  }
  for (let at = start; at < data.length; at += 4) {
    if (!isWithinBounds(view.getFloat32(at, true))) {
      throw new ProtocolError("model file: an entry is neither 0 nor of a size in 2^-60..2^20");
    }
  }
  return new DataView(data.buffer, data.byteOffset + start, size);
}

function describes(header: Fields, items: number, factors: number): boolean {
  exactKeys({ ...header, __metadata__: null }, [NAME, "__metadata__"], "model file");
  const tensor = header[NAME];
  if (!isObject(tensor)) return false;
  exactKeys(tensor, ["dtype", "shape", "data_offsets"], "model file");
  return (
    tensor.dtype === "F32" &&
    isPair(tensor.shape, items, factors) &&
    isPair(tensor.data_offsets, 0, 4 * items * factors)
  );
}

function isPair(value: unknown, first: number, second: number): boolean {
  return Array.isArray(value) && value.length === 2 && value[0] === first && value[1] === second;
}

/** Row by row. */
export interface Matrix {
  readonly values: Float32Array;
  readonly rows: number;
  readonly columns: number;
}
