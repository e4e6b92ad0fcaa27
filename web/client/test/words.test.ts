import assert from "node:assert/strict";
import { test } from "node:test";
import { systemEntropy, systemWords } from "../src/words.js";

test("a batch takes four words for each report and four for ties", () => {
  assert.equal(systemWords(1).length, 8);
  assert.equal(systemWords(10_000).length, 40_004);
});

test("every part of a long run of bytes is filled", () => {
  const data = systemEntropy(3 * 65_536 + 5);
  assert.equal(data.length, 3 * 65_536 + 5);
  for (let at = 0; at < data.length; at += 4096) {
    const piece = data.subarray(at, at + 4096);
    assert.ok(piece.length < 32 || piece.some((byte) => byte !== 0), `at ${at}`);
  }
});

test("words do not repeat, and each of their bits is set about half of the time", () => {
  const words = systemWords(9_999);
  assert.equal(new Set(words).size, words.length);
  for (let bit = 0n; bit < 64n; bit++) {
    const set = words.reduce((count, word) => count + Number((word >> bit) & 1n), 0);
    assert.ok(Math.abs(set - 20_000) < 1_000, `bit ${bit}: ${set} of 40000`); // ten deviations
  }
});
