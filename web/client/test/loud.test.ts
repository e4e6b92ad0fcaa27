/** Which directions are loud: exactly L, in exactly the order of docs/protocol.md. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { loudAt, type Voice } from "../src/mechanism/loud.js";
import { seeded } from "./vectors.js";

/** As the protocol says it: everything is listed and sorted. */
function listed({ a, x, count, offset }: Voice): number[] {
  const all = Array.from({ length: 2 * a.length * x.length }, (_, signed) => {
    const [row, factor] = [Math.floor(signed / 2 / x.length), Math.floor(signed / 2) % x.length];
    const [u, v] = [a[row] as number, x[factor] as number];
    const agrees = (signed & 1) === (u > 0 !== v > 0 ? 1 : 0) ? 1 : -1;
    return { signed, agreement: agrees * Math.abs(u * v) };
  });
  const least = all.map(({ agreement }) => agreement).sort((one, other) => other - one)[count - 1];
  const above = all.filter(({ agreement }) => agreement > (least as number));
  const place = (signed: number) => (signed + offset) % all.length;
  const tied = all.filter(({ agreement }) => agreement === least || (least === 0 && !agreement));
  tied.sort((one, other) => place(one.signed) - place(other.signed));
  return [...above, ...tied].slice(0, count).map(({ signed }) => signed);
}

const ranksOf = ({ count }: Voice) => Array.from({ length: count }, (_, rank) => rank);

test("the directions that agree most, ties in the order that the offset begins", async () => {
  const a = Float32Array.of(0.5, -2, 0);
  const x = Float32Array.of(1, -0.5);
  const loud = (count: number, offset: number) => {
    const voice = { a, x, count, offset };
    return loudAt(voice, ranksOf(voice));
  };
  // Agreements: 2 at (1, 0) plus, 1 at (1, 1) minus, 0.5 at (0, 0) minus, 0.25 at (0, 1) plus.
  assert.deepEqual(await loud(4, 0), [0, 5, 6, 3]); // by index, and the least of them
  assert.deepEqual(await loud(1, 11), [5]);
  assert.deepEqual((await loud(6, 0)).slice(4), [8, 9]); // row 2 is zero: both signs tie
  assert.deepEqual((await loud(6, 2)).slice(4), [10, 11]);
  assert.deepEqual((await loud(6, 1)).slice(4), [11, 8]);
});

test("they are those of a full sort, whatever is equal or zero", async () => {
  const random = seeded(8);
  const whole = (most: number) => Math.floor(random() * most);
  for (let round = 0; round < 400; round++) {
    const steps = 1 + whole(4);
    const values = (length: number) =>
      Float32Array.from({ length }, () => (whole(2 * steps + 1) - steps) * (round % 3 ? 1 : 0.1));
    const [a, x] = [values(1 + whole(12)), values(1 + whole(5))];
    const n = a.length * x.length;
    const voice = { a, x, count: 1 + whole(n), offset: whole(2 * n) };
    assert.deepEqual(await loudAt(voice, ranksOf(voice)), listed(voice));
  }
});

test("of nothing at all there are as many, in the order of the offset alone", async () => {
  for (const offset of [0, 1, 7, 23]) {
    const silent = { a: Float32Array.of(1, 2, -3, 0), x: Float32Array.of(0, -0, 0), offset };
    const wanted = Array.from({ length: 12 }, (_, rank) => (rank - offset + 24) % 24);
    assert.deepEqual(await loudAt({ ...silent, count: 12 }, [...wanted.keys()]), wanted);
  }
});

test("ranks may come in any order, and again", async () => {
  const a = Float32Array.of(1, -1, 1, 3);
  const voice = { a, x: Float32Array.of(2, -2), count: 6, offset: 5 };
  const all = await loudAt(voice, ranksOf(voice));
  const ranks = [5, 0, 5, 3, 1, 4, 4, 2];
  assert.deepEqual(
    await loudAt(voice, ranks),
    ranks.map((rank) => all[rank]),
  );
  assert.deepEqual(await loudAt(voice, []), []);
});

test("the least and the largest numbers order exactly", async () => {
  const sizes = [2 ** -149, 2 ** -148, 3 * 2 ** -149, 2 ** -126, 1, 2 ** 89, 1 + 2 ** -23];
  const a = Float32Array.from([...sizes, ...sizes.map((size) => -size), 0]);
  const x = Float32Array.of(2 ** 40, -(2 ** -149), 1 + 2 ** -23, 0, 3 * 2 ** -149);
  const n = a.length * x.length;
  for (let count = 1; count <= n; count++) {
    const voice = { a, x, count, offset: (3 * count) % (2 * n) };
    assert.deepEqual(await loudAt(voice, ranksOf(voice)), listed(voice), `${count}`);
  }
});
