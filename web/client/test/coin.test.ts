import assert from "node:assert/strict";
import { test } from "node:test";
import { flipThreshold, pick, uniformThreshold } from "../src/coin.js";
import { SettingsError } from "../src/errors.js";
import { thresholds } from "./vectors.js";

const WORD = 1n << 64n;

test("every threshold is the other implementation's, to the last unit", () => {
  assert.ok(thresholds.length > 20);
  for (const { epsilon, flip, uniform } of thresholds) {
    assert.equal(flipThreshold(epsilon), BigInt(`0x${flip}`), `flip at ${epsilon}`);
    for (const [loud, n, below] of uniform) {
      const found = uniformThreshold(epsilon, Number(loud), Number(n));
      assert.equal(found, BigInt(`0x${below}`), `${loud} of ${n} at ${epsilon}`);
    }
  }
});

test("the thresholds that docs/mechanisms.md and docs/protocol.md quote", () => {
  assert.equal(flipThreshold(2.5), 1399336432749266787n);
  assert.equal(flipThreshold(0.5), 6964396094736529935n);
  assert.equal(flipThreshold(6), 45611846561169528n);
  assert.equal(uniformThreshold(2.5, 6, 16), 5956869935017196611n);
});

test("more epsilon never flips more often", () => {
  let last = WORD;
  for (let epsilon = 0.01; epsilon <= 40; epsilon += 0.37) {
    const threshold = flipThreshold(epsilon);
    assert.ok(threshold < last && threshold > 0n, `${epsilon}`);
    last = threshold;
  }
});

test("no coin for an epsilon that cannot be kept", () => {
  for (const epsilon of [0, -1, 40.00000000000001, NaN, Infinity]) {
    assert.throws(() => flipThreshold(epsilon), SettingsError);
    assert.throws(() => uniformThreshold(epsilon, 1, 2), SettingsError);
  }
  assert.equal(flipThreshold(5e-324), WORD / 2n);
});

test("a pick is the product's upper half", () => {
  assert.equal(pick(0n, 10), 0);
  assert.equal(pick(WORD - 1n, 10), 9);
  assert.equal(pick(WORD / 2n, 10), 5);
  assert.equal(pick(WORD / 2n - 1n, 10), 4);
  assert.equal(pick(WORD - 1n, 2 ** 32), 2 ** 32 - 1);
  assert.equal(pick(0x0c4f330c2750e97cn, 32n), 1);
});
