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

// The model file contains V as bfloat16 in the safetensors format, as one tensor named
// `item_matrix`: eight bytes (little endian) with the length of the header, a JSON header, and the
// numbers factor by factor. The bits of a bfloat16 are the upper ones of the same number in float32.

const TENSOR_NAME = "item_matrix";
const LENGTH_BYTES = 8;
const MAX_HEADER_BYTES = 4096;
const ENTRY_BYTES = 2;

/** Return the maximum size in bytes of a model file with this shape. */
export function computeMaxModelBytes(items: number, factors: number): number {
  return LENGTH_BYTES + MAX_HEADER_BYTES + ENTRY_BYTES * items * factors;
}

/** Decode the item matrix. Throws a `ProtocolError` unless it has this shape and all entries are within the public bounds. */
export function decodeItems(data: Uint8Array, rows: number, columns: number): Matrix {
  const halves = checkItems(data, rows, columns);
  const bits = new Uint32Array(rows * columns).map((_, at) => {
    const place = (at % columns) * rows + Math.floor(at / columns);
    return readUpperBits(halves, ENTRY_BYTES * place);
  });
  return { values: new Float32Array(bits.buffer), rows, columns };
}

/** Return the bits of the float32 that is equal to the bfloat16 at a place. */
function readUpperBits(view: DataView, at: number): number {
  return view.getUint16(at, true) << 16;
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
      `model file: it must have one bfloat16 tensor '${TENSOR_NAME}' of ${factors} x ${items}`,
    );
  }
  const number = new DataView(new ArrayBuffer(4));
  for (let at = start; at < data.length; at += ENTRY_BYTES) {
    number.setUint32(0, readUpperBits(view, at));
    if (!isWithinBounds(number.getFloat32(0))) {
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
    tensor.dtype === "BF16" &&
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
