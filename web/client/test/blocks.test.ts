/** The rows of a person's gradient, in blocks: what they are, how long they take, who waits. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHex } from "../src/bytes.js";
import { allRows } from "../src/mechanism/blocks.js";
import type { Person } from "../src/mechanism/draws.js";
import { makeReports } from "../src/mechanism/index.js";
import { hadamardSign, publicBytes, publicSigns } from "../src/mechanism/walsh.js";
import { decodeItems } from "../src/model.js";
import { slices } from "../src/slices.js";
import { sumOfAllSquares, userVector } from "../src/user.js";
import { manifestWith, protocol, seeded, wordFrom } from "./vectors.js";

interface Size {
  items: number;
  factors: number;
  block: number;
}

function somebody({ items, factors, block }: Size, own: readonly number[]): Person {
  const random = seeded(items + block);
  const values = Float32Array.from({ length: items * factors }, () => random() - 0.5);
  const parameters = { directions_seed: 7, block, loud: items };
  const terms = { mechanism: "loudest", parameters, factors, reports: 100, epsilon: 2.5 };
  const manifest = manifestWith({ items, alpha: 2, terms });
  const V = { values, rows: items, columns: factors };
  return { manifest, V, own, x: userVector(V, own, 2, manifest.regularization) };
}

/** `a_r = sum_i s_i H[r mod b, place_i mod b] e_i` over the items of the block, as it is defined. */
async function defined({ manifest, V, own, x }: Person, block: number): Promise<number[]> {
  const signs = await publicSigns(7, V.rows);
  const bytes = await publicBytes(7, "order", 4 * V.rows);
  const numbers = new Uint32Array(bytes.slice().buffer);
  const places = Array.from({ length: V.rows }, (_, item) => item)
    .sort((one, other) => (numbers[one] as number) - (numbers[other] as number))
    .reduce((found, item, place) => found.set(item, place), new Map<number, number>());
  const rows = Array.from({ length: Math.ceil(V.rows / block) * block }, () => 0);
  places.forEach((place, item) => {
    const at = item * V.columns;
    const predicted = x.reduce((sum, value, f) => sum + value * (V.values[at + f] as number), 0);
    const isOwn = own.includes(item);
    const e = (isOwn ? 1 + manifest.alpha : 1) * ((isOwn ? 1 : 0) - predicted);
    const start = place - (place % block);
    for (let row = 0; row < block; row++) {
      const share = (signs[item] as number) * hadamardSign(row, place % block) * e;
      rows[start + row] = (rows[start + row] as number) + share;
    }
  });
  return rows;
}

test("the rows of the protocol's example", async () => {
  const { history } = protocol.reports;
  const manifest = manifestWith({});
  const V = { values: decodeItems(fromHex(protocol.model.bytes), 5, 2), rows: 5, columns: 2 };
  const x = userVector(V, history, manifest.alpha, manifest.regularization);
  const rows = await allRows({ manifest, V, own: history, x });
  const rounded = Array.from(rows, (row) => row.toFixed(3));
  const alone = Array.from({ length: 4 }, () => "-0.525");
  assert.deepEqual(rounded, ["1.210", "1.836", "-0.181", "-0.411", ...alone]);
});

for (const block of [1, 2, 64, 128, 256, 1024]) {
  test(`rows in blocks of ${block} are what they are defined as`, async () => {
    for (const [items, factors] of [
      [1, 1],
      [63, 2],
      [300, 3],
    ] as const) {
      for (const own of [
        [],
        [0],
        Array.from({ length: Math.ceil(items / 3) }, (_, at) => 3 * at),
      ]) {
        const person = somebody({ items, factors, block }, own);
        const [found, wanted] = [await allRows(person), await defined(person, block)];
        assert.equal(found.length, wanted.length);
        const error = Math.max(...wanted.map((row, at) => Math.abs(row - (found[at] as number))));
        assert.ok(error < 1e-3, `${items} items, ${own.length} touched: ${error}`);
      }
    }
  });
}

test("a large model takes a moment, in which others have their turn", async () => {
  const own = Array.from({ length: 500 }, (_, at) => 17 * at);
  const { manifest, V } = somebody({ items: 10_000, factors: 32, block: 64 }, own);
  sumOfAllSquares(V);
  const random = seeded(3);
  const words = BigUint64Array.from({ length: 101 * 4 }, () => wordFrom(random));
  let [turns, isOver] = [0, false];
  const others = () => {
    turns += 1;
    if (!isOver) setImmediate(others);
  };
  setImmediate(others);
  const begun = performance.now();
  const { reports } = await makeReports(manifest, V, own, words);
  isOver = true;
  assert.equal(reports.length, 100);
  assert.ok(performance.now() - begun < 1000, `${performance.now() - begun} ms`);
  assert.ok(turns > 3, `${turns} turns`);
});

test("slices cover everything once; between two of them, and only there, others have their turn", async () => {
  for (const [n, size, wanted] of [
    [0, 5, []],
    [5, 5, [[0, 5]]],
    [
      11,
      5,
      [
        [0, 5],
        [5, 10],
        [10, 11],
      ],
    ],
  ] as const) {
    const [found, turns] = [[] as number[][], [] as number[]];
    setImmediate(() => turns.push(found.length));
    for await (const slice of slices(n, size)) found.push(slice);
    assert.deepEqual(found, wanted);
    assert.ok(
      turns.length === (wanted.length > 1 ? 1 : 0) && turns.every((at) => at < wanted.length),
    );
  }
});
