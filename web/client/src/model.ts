/**
 * The model file: V as float32 in the safetensors format, one tensor named `item_matrix`.
 *
 * Eight bytes (little endian) of header length, a JSON header, the numbers row by row.
 */

import { isWithinBounds } from "./bounds.js";
import { ProtocolError } from "./errors.js";
import { exactKeys, type Fields, isObject, readObject } from "./strict.js";

const NAME = "item_matrix";
const LENGTH = 8;
const LONGEST_HEADER = 4096;

/** No file of such a matrix is longer: what a reader may stop at. */
export function modelSize(items: number, factors: number): number {
  return LENGTH + LONGEST_HEADER + 4 * items * factors;
}

/** The matrix row by row; it must have this shape and public bounds, else it is a `ProtocolError`. */
export function decodeItems(data: Uint8Array, items: number, factors: number): Float32Array {
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
  return readFloats(view, start, items * factors);
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

function readFloats(view: DataView, start: number, count: number): Float32Array {
  const values = new Float32Array(count);
  for (let number = 0; number < count; number++) {
    const value = view.getFloat32(start + 4 * number, true);
    if (!isWithinBounds(value)) {
      throw new ProtocolError("model file: an entry is neither 0 nor of a size in 2^-60..2^20");
    }
    values[number] = value;
  }
  return values;
}
