import assert from "node:assert/strict";
import { test } from "node:test";
import { concat, fromHex, utf8 } from "../src/bytes.js";
import { ProtocolError } from "../src/errors.js";
import { decodeItems, modelSize } from "../src/model.js";
import { fromFloatHex, protocol } from "./vectors.js";

const file = fromHex(protocol.model.bytes);
const { items } = protocol.manifest.fields;
const { factors } = protocol.manifest.fields.terms;

function withHeader(header: string, values = file.subarray(file.length - 40)): Uint8Array {
  const length = new Uint8Array(8);
  new DataView(length.buffer).setUint32(0, header.length, true);
  return concat([length, utf8(header), values]);
}

test("the item matrix", () => {
  const wanted = Float32Array.from(protocol.model.values, fromFloatHex);
  assert.deepEqual(decodeItems(file, items, factors), wanted);
  assert.deepEqual(
    decodeItems(concat([Uint8Array.of(9), file]).subarray(1), items, factors),
    wanted,
  );
});

test("every malformed model file is refused", () => {
  assert.ok(protocol.refused.model.length > 15);
  for (const { label, bytes } of protocol.refused.model) {
    assert.throws(() => decodeItems(fromHex(bytes), items, factors), ProtocolError, label);
  }
});

test("a file of another shape than the manifest's is refused", () => {
  for (const [rows, columns] of [
    [2, 5],
    [10, 1],
    [5, 3],
    [4, 2],
  ] as const) {
    assert.throws(() => decodeItems(file, rows, columns), ProtocolError);
  }
});

test("metadata is not looked at, order and spaces are free", () => {
  const tensor = '{"shape":[5, 2],"dtype":"F32","data_offsets":[0,40]}';
  const header = `{"__metadata__":{"format":[1e400]}, "item_matrix":${tensor}}   `;
  assert.deepEqual(decodeItems(withHeader(header), 5, 2), decodeItems(file, 5, 2));
  assert.throws(() => decodeItems(withHeader('{"__metadata__":{}}'), 5, 2), ProtocolError);
  assert.throws(() => decodeItems(withHeader(`{"item_matrix":[${tensor}]}`), 5, 2), ProtocolError);
});

test("every entry is 0 or of a size in 2^-60..2^20", () => {
  const header = '{"item_matrix":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}';
  const one = (value: number) => withHeader(header, new Uint8Array(Float32Array.of(value).buffer));
  for (const value of [0, -0, 2 ** -60, -(2 ** -60), 2 ** 20, -(2 ** 20), 1]) {
    assert.deepEqual(decodeItems(one(value), 1, 1), Float32Array.of(value));
  }
  const beyond = [2 ** -60 * (1 - 2 ** -24), 2 ** -149, 2 ** 20 * (1 + 2 ** -23), 3e38];
  for (const value of [...beyond, ...beyond.map((size) => -size), NaN, Infinity, -Infinity]) {
    assert.throws(() => decodeItems(one(value), 1, 1), ProtocolError, String(value));
  }
});

test("the cap is never below the file", () => {
  assert.equal(modelSize(5, 2), 8 + 4096 + 40);
  assert.ok(modelSize(items, factors) >= file.length);
});
