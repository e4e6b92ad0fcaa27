import assert from "node:assert/strict";
import { test } from "node:test";
import { usable } from "../src/bounds.js";
import { SettingsError } from "../src/errors.js";
import { ascending, dot, type Matrix, userVector } from "../src/user.js";
import { fromFloatHex, mechanisms, seeded } from "./vectors.js";

function matrixOf(rows: number, columns: number, random: () => number): Matrix {
  const values = Float32Array.from({ length: rows * columns }, () => random() - 0.5);
  return { values, rows, columns };
}

test("user vectors are the other implementation's, bit for bit", () => {
  for (const { factors, items, alpha, regularization, ...vector } of mechanisms) {
    const values = Float32Array.from(vector.item_matrix, fromFloatHex);
    const V = { values, rows: items, columns: factors };
    const found = vector.histories.flatMap((own) => [...userVector(V, own, alpha, regularization)]);
    assert.deepEqual(found, vector.user_vectors.map(fromFloatHex), vector.label);
  }
});

test("it solves the normal equations", () => {
  const random = seeded(3);
  for (let round = 0; round < 20; round++) {
    const V = matrixOf(30, 4, random);
    const own = [2, 7, 11, 29];
    const x = userVector(V, own, 1.5, 0.1);
    const row = (item: number) => V.values.subarray(4 * item, 4 * item + 4);
    const times = (item: number) => row(item).reduce((sum, v, f) => sum + v * (x[f] as number), 0);
    for (let f = 0; f < 4; f++) {
      let left = 0.1 * (x[f] as number);
      for (let item = 0; item < 30; item++) {
        const weight = own.includes(item) ? 2.5 : 1;
        left += weight * (row(item)[f] as number) * times(item);
      }
      const right = own.reduce((sum, item) => sum + 2.5 * (row(item)[f] as number), 0);
      assert.ok(Math.abs(left - right) < 1e-5, `${left} and ${right}`);
    }
  }
});

test("order and repeats of the own items do not matter, items beyond the model are refused", () => {
  const V = matrixOf(20, 3, seeded(4));
  assert.deepEqual(userVector(V, [9, 1, 9, 4], 1, 1), userVector(V, [1, 4, 9], 1, 1));
  assert.deepEqual(ascending([10, 9, 9, 0], 11), [0, 9, 10]);
  for (const wrong of [[20], [-1], [1.5], [NaN]]) {
    assert.throws(() => userVector(V, wrong, 1, 1), SettingsError);
  }
});

test("nobody's history is the zero vector", () => {
  const V = matrixOf(20, 3, seeded(5));
  assert.ok(userVector(V, [], 1, 1).every((value) => value === 0));
});

test("where the equations have no usable solution the vector is zero, and nothing fails", () => {
  const zero = Float32Array.of(0, 0);
  const V = { values: new Float32Array(6), rows: 3, columns: 2 };
  assert.deepEqual(userVector(V, [0], 1, 0), zero); // 0 / 0
  const tiny = { values: Float32Array.of(1, 0, 0, 2 ** -60, 1, 0), rows: 3, columns: 2 };
  assert.ok(userVector(tiny, [0], 1, 1e-12).some((entry) => entry !== 0));
  assert.deepEqual(userVector(tiny, [1], 1, 2 ** -110), zero); // beyond 2^40
  const huge = { values: new Float32Array(6).fill(3e38), rows: 3, columns: 2 };
  assert.deepEqual(userVector(huge, [0], 1e300, 0), zero);
});

test("a user vector may be as long as 2^40 and no longer", () => {
  for (const [entry, isUsable] of [
    [2 ** 40, true],
    [-(2 ** 40), true],
    [2 ** 40 * (1 + 2 ** -23), false],
    [Number.NaN, false],
    [Number.NEGATIVE_INFINITY, false],
  ] as const) {
    const x = Float32Array.of(1, entry);
    assert.deepEqual(usable(x), isUsable ? x : new Float32Array(2));
  }
});

test("products are float32, factor after factor", () => {
  const values = Float32Array.of(1, 2 ** -24, 2 ** -24, 0.1, 0.2, 0.3);
  const x = Float32Array.of(1, 1, 1);
  // Each 2^-24 is rounded away by itself; together they would not be.
  assert.equal(dot(x, values, 0), 1);
  const f = Math.fround;
  assert.equal(dot(x, values, 3), f(f(f(0.1) + f(0.2)) + f(0.3)));
});
