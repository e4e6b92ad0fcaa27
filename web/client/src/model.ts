/**
 * The item matrix V and its file.
 *
 * All clients compute the same bits, because they add the terms of every sum in the order of
 * docs/protocol.md: items ascending, factors ascending, one rounding for each operation. Plain
 * arithmetic is in float64; `Math.fround` marks float32.
 */

import { isWithinBounds } from "./bounds.js";
import { ProtocolError } from "./errors.js";
import { checkKeys, type Fields, parseObject } from "./json.js";

// The model file contains V as float32 in the safetensors format, as one tensor named
// `item_matrix`: eight bytes (little endian) with the length of the header, a JSON header, and the
// numbers row by row.

const TENSOR_NAME = "item_matrix";
const LENGTH_BYTES = 8;
const MAX_HEADER_BYTES = 4096;

/** Return the maximum size in bytes of a model file with this shape. */
export function computeMaxModelBytes(items: number, factors: number): number {
  return LENGTH_BYTES + MAX_HEADER_BYTES + 4 * items * factors;
}

/**
 * Decode the item matrix. Throws a `ProtocolError` unless it has this shape and all entries are
 * within the public bounds.
 */
export function decodeItems(data: Uint8Array, rows: number, columns: number): Matrix {
  const floats = checkItems(data, rows, columns);
  const values = new Float32Array(rows * columns).map((_, at) => floats.getFloat32(4 * at, true));
  return { values, rows, columns };
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
  const size = 4 * items * factors;
  if (!isHeaderOf(header, items, factors) || data.length !== start + size) {
    throw new ProtocolError(
      `model file: it must have one float32 tensor '${TENSOR_NAME}' of ${items} x ${factors}`,
    );
  }
  for (let at = start; at < data.length; at += 4) {
    if (!isWithinBounds(view.getFloat32(at, true))) {
      throw new ProtocolError("model file: each entry must be 0 or of a size in 2^-60..2^20");
    }
  }
  return new DataView(data.buffer, data.byteOffset + start, size);
}

function isHeaderOf(header: Fields, items: number, factors: number): boolean {
  checkKeys({ ...header, __metadata__: null }, [TENSOR_NAME, "__metadata__"], "model file");
  const tensor = header[TENSOR_NAME];
  checkKeys(tensor, ["dtype", "shape", "data_offsets"], "model file");
  return (
    tensor.dtype === "F32" &&
    isPair(tensor.shape, items, factors) &&
    isPair(tensor.data_offsets, 0, 4 * items * factors)
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
