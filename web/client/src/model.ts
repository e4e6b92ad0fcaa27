/**
 * The item matrix V and its file.
 *
 * All clients compute the same bits, because they add the terms of every sum in the order of
 * docs/protocol.md: items ascending, factors ascending, one rounding for each operation. Plain
 * arithmetic is in float64; `Math.fround` marks float32.
 */

import { ProtocolError } from "./errors.js";
import { checkKeys, type Fields, parseObject } from "./json.js";

// The model file contains V in half precision (IEEE 754 binary16) in the safetensors format, as one
// tensor named `item_matrix`: eight bytes (little endian) with the length of the header, a JSON
// header, and the numbers factor by factor. `Float16Array` is too new for many browsers.

const TENSOR_NAME = "item_matrix";
const LENGTH_BYTES = 8;
const MAX_HEADER_BYTES = 4096;
const ENTRY_BYTES = 2;

/** Return the maximum size in bytes of a model file with this shape. */
export function computeMaxModelBytes(items: number, factors: number): number {
  return LENGTH_BYTES + MAX_HEADER_BYTES + ENTRY_BYTES * items * factors;
}

/** Decode the item matrix. Throws a `ProtocolError` unless it has this shape and is finite. */
export function decodeItems(data: Uint8Array, rows: number, columns: number): Matrix {
  const halves = checkItems(data, rows, columns);
  const values = new Float32Array(rows * columns);
  for (let at = 0; at < values.length; at++) {
    const place = (at % columns) * rows + Math.floor(at / columns);
    values[at] = parseHalf(halves.getUint16(ENTRY_BYTES * place, true));
  }
  return { values, rows, columns };
}

/** Return the number that the bits of a finite half-precision number stand for. It is exact. */
function parseHalf(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  // A number with exponent 0 is subnormal: it has no leading 1.
  const size = exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24;
  return bits >> 15 ? -size : size;
}

/** Check all numbers of a model file, and return a view of them. */
export function checkItems(data: Uint8Array, items: number, factors: number): DataView {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const length = data.length < LENGTH_BYTES ? -1 : Number(view.getBigUint64(0, true));
  if (length < 0 || length > MAX_HEADER_BYTES || data.length < LENGTH_BYTES + length) {
    throw new ProtocolError("model file: its header is missing or too long");
  }
  const start = LENGTH_BYTES + length;
  const header = parseObject(data.subarray(LENGTH_BYTES, start), MAX_HEADER_BYTES, "model file");
  const size = ENTRY_BYTES * items * factors;
  if (!isHeaderOf(header, items, factors) || data.length !== start + size) {
    throw new ProtocolError(
      `model file: it must have one half-precision tensor '${TENSOR_NAME}' of ${factors} x ${items}`,
    );
  }
  for (let at = start; at < data.length; at += ENTRY_BYTES) {
    if ((view.getUint16(at, true) & INFINITE_EXPONENT) === INFINITE_EXPONENT) {
      throw new ProtocolError("model file: each entry must be finite");
    }
  }
  return new DataView(data.buffer, data.byteOffset + start, size);
}

/** The bits of the exponent, which are all set for infinity and NaN. */
const INFINITE_EXPONENT = 0x7c00;

function isHeaderOf(header: Fields, items: number, factors: number): boolean {
  checkKeys({ ...header, __metadata__: null }, [TENSOR_NAME, "__metadata__"], "model file");
  const tensor = header[TENSOR_NAME];
  checkKeys(tensor, ["dtype", "shape", "data_offsets"], "model file");
  return (
    tensor.dtype === "F16" &&
    isPair(tensor.shape, factors, items) &&
    isPair(tensor.data_offsets, 0, ENTRY_BYTES * items * factors)
  );
}

function isPair(value: unknown, first: number, second: number): boolean {
  return Array.isArray(value) && value.length === 2 && value[0] === first && value[1] === second;
}

/** A matrix, stored row by row. */
export interface Matrix {
  readonly values: Float32Array;
  readonly rows: number;
  readonly columns: number;
}
