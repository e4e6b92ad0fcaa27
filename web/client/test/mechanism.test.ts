/**
 * From a history and random words to reports, as in the other implementation; mechanisms plug in.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { toUsable } from "../src/bounds.js";
import { fromHex } from "../src/bytes.js";
import { computeFlipThreshold, computeUniformThreshold, drawSystemEntropy } from "../src/coin.js";
import { SettingsError } from "../src/errors.js";
import type { Mechanism } from "../src/mechanism/base.js";
import { findLoud, type LoudSettings } from "../src/mechanism/loud.js";
import { findMechanism, MECHANISMS, makeReports } from "../src/mechanism/registry.js";
import { sliceRange } from "../src/mechanism/slices.js";
import { decodeItems, type Matrix } from "../src/model.js";
import { solveUserVector, sortRows } from "../src/vector.js";
import {
  fromFloatHex,
  fromWords,
  manifestWith,
  mechanisms,
  protocol,
  seeded,
  thresholds,
  wordFrom,
} from "./vectors.js";

function example(mechanism: Mechanism, items: number, factors: number, seed: number) {
  const random = seeded(seed);
  const values = Float32Array.from({ length: items * factors }, () => random() - 0.5);
  const V: Matrix = { values, rows: items, columns: factors };
  const manifest = manifestWith({ items });
  const parameters = Object.fromEntries(
    Object.entries(mechanism.parameters).map(([name, { minIn }]) => {
      const least = minIn(manifest);
      return [name, mechanism.asksForNames ? least + (least % 2) : least];
    }),
  );
  const terms = { mechanism: mechanism.name, parameters, factors, reports: 50 };
  const words = BigUint64Array.from({ length: 51 * 4 }, () => wordFrom(random));
  return { manifest: manifestWith({ items, terms }), V, words };
}

async function sameReports(vector: (typeof mechanisms)[number]) {
  const { mechanism, epsilon, factors, items, alpha, regularization, k } = vector;
  const parameters = vector.parameters as Record<string, number>;
  const terms = { mechanism, parameters, epsilon, factors, reports: k };
  const manifest = manifestWith({ items, alpha, regularization, terms });
  const V = {
    values: Float32Array.from(vector.item_matrix, fromFloatHex),
    ...{ rows: items, columns: factors },
  };
  const size = 4 * (k + 1);
  for (const [user, own] of vector.histories.entries()) {
    const words = fromWords(vector.words.slice(size * user, size * (user + 1)));
    const { reports } = await makeReports(manifest, V, own, words);
    assert.deepEqual([...reports], vector.reports[user], `${vector.label}, user ${user}`);
  }
}

test("the epoch of the protocol's example", async () => {
  const { items, terms } = protocol.manifest.fields;
  const { factors } = terms;
  const V = decodeItems(fromHex(protocol.model.bytes), items, factors);
  const words = fromWords(protocol.reports.words);
  const { history, values } = protocol.reports;
  const { reports, readable } = await makeReports(manifestWith({}), V, history, words);
  assert.deepEqual([...reports], values);
  assert.deepEqual(readable, [
    { index: 3, bit: 0, row: 1, column: 1, coin: "kept" },
    { index: 9, bit: 1, row: 4, column: 1, coin: "kept" },
    { index: 10, bit: 1, row: 5, column: 0, coin: "random" },
    { index: 0, bit: 0, row: 0, column: 0, coin: "kept" },
  ]);
});

for (const mechanism of MECHANISMS) {
  const { name } = mechanism;

  test(`${name}: the same words give the same reports as in the other implementation`, async () => {
    const vectors = mechanisms.filter((vector) => vector.mechanism === name);
    assert.ok(vectors.length > 0, "no vectors");
    for (const vector of vectors) await sameReports(vector);
  });

  test(`${name}: the readable reports are those that are sent`, async () => {
    const { manifest, V, words } = example(mechanism, 20, 3, 1);
    const { reports, readable } = await makeReports(manifest, V, [3, 4, 17], words);
    assert.equal(reports.length, 50);
    readable.forEach(({ index, bit, row, column }, number) => {
      assert.equal(reports[number], index * 2 + bit);
      if (mechanism.asksForNames) assert.deepEqual([index * 2 + bit, column], [row + 1, 0]);
      else assert.equal(index, row * V.columns + column);
      assert.ok(index < mechanism.countDirections(manifest));
    });
    const coins = new Set(readable.map(({ coin }) => coin));
    const other = mechanism.computeOdds(manifest.terms).random > 0 ? "random" : "turned";
    assert.deepEqual(coins, new Set(["kept", other]));
  });

  test(`${name}: the word below the threshold turns, the threshold itself does not`, async () => {
    const { manifest, V, words } = example(mechanism, 20, 3, 6);
    const { epsilon, parameters } = manifest.terms;
    const below =
      mechanism.computeOdds(manifest.terms).random > 0
        ? computeUniformThreshold(
            epsilon,
            parameters.loud ?? 1,
            mechanism.countDirections(manifest),
          )
        : computeFlipThreshold(epsilon);
    for (const [coin, isKept] of [
      [below, true],
      [below - 1n, false],
    ] as const) {
      const tossed = words.map((word, at) => (at % 4 === 2 ? coin : word));
      const { readable } = await makeReports(manifest, V, [3, 4, 17], tossed);
      assert.ok(readable.every((report) => (report.coin === "kept") === isKept));
    }
  });
}

for (const mechanism of MECHANISMS.filter(({ asksForNames }) => asksForNames !== true)) {
  test(`${mechanism.name}: without a usable user vector the reports are those of nobody's history`, async () => {
    const { manifest, V, words } = example(mechanism, 20, 3, 4);
    const none = { ...V, values: V.values.map((_, at) => (at === 9 ? 2 ** -60 : 0)) };
    const hopeless = { ...manifest, alpha: 1024, regularization: 1e-40 };
    const batch = await makeReports(hopeless, none, [3, 4, 17], words);
    assert.deepEqual(batch, await makeReports(hopeless, none, [], words));
  });
}

const closeTo = (value: number, wanted: number) => assert.ok(Math.abs(value - wanted) < 1e-9);

test("a sign is kept e^epsilon times as often as it is turned", () => {
  const { terms } = manifestWith({ terms: { epsilon: 2.5 } });
  const { truth, chance, random } = findMechanism("coordinate").computeOdds(terms);
  closeTo(truth / (1 - truth), Math.exp(2.5));
  assert.deepEqual([chance, random], [0.5, 0]);
});

test("a loud direction is e^epsilon times as likely as a quiet one", () => {
  const { terms } = manifestWith({ terms: { epsilon: 2.5, loudFraction: 5394 / 32768 } });
  const { truth, chance } = findMechanism("loudest").computeOdds(terms);
  closeTo(truth / chance / ((1 - truth) / (1 - chance)), Math.exp(2.5));
  assert.equal(chance, 5394 / 32768);
});

test("a name is e^epsilon times as likely as any other outcome", () => {
  const { terms } = manifestWith({
    terms: { epsilon: 2.5, loudFraction: 0.5, parameters: { names: 40 } },
  });
  const { truth, chance } = findMechanism("named").computeOdds(terms);
  closeTo(truth / ((1 - truth) / 39), Math.exp(2.5));
  assert.equal(chance, 1 / 40);
});

test("a name is one of the reported items, each as often; without any it is nothing", async () => {
  const { manifest, V } = example(findMechanism("named"), 20, 3, 1);
  const coins = Array.from({ length: 51 }, (_, n) => [
    0n,
    (WORD * BigInt(n)) / 51n + 1n,
    WORD - 1n,
    0n,
  ]);
  const words = BigUint64Array.from(coins.flat());
  const { readable } = await makeReports(manifest, V, [3, 4, 17], words);
  const rows = readable.map(({ row }) => row);
  assert.deepEqual(
    [3, 4, 17].map((own) => rows.filter((row) => row === own).length),
    [17, 17, 16],
  );
  const none = await makeReports(manifest, V, [], words);
  assert.deepEqual(new Set(none.reports), new Set([0]));
  assert.deepEqual(new Set(none.readable.map(({ row }) => row)), new Set([-1]));
});

test("user vectors are the other implementation's, bit for bit", () => {
  for (const { factors, items, alpha, regularization, ...vector } of mechanisms) {
    const values = Float32Array.from(vector.item_matrix, fromFloatHex);
    const V = { values, rows: items, columns: factors };
    const entries = vector.histories.flatMap((own) => [
      ...solveUserVector(V, own, alpha, regularization),
    ]);
    assert.deepEqual(entries, vector.user_vectors.map(fromFloatHex), vector.label);
  }
});

test("order and repeats of the own items do not matter, items beyond the model are refused", () => {
  const { V } = example(MECHANISMS[0] as Mechanism, 20, 3, 4);
  assert.deepEqual(solveUserVector(V, [9, 1, 9, 4], 1, 1), solveUserVector(V, [1, 4, 9], 1, 1));
  assert.deepEqual(sortRows([10, 9, 9, 0], 11), [0, 9, 10]);
  for (const wrong of [[20], [-1], [1.5], [NaN]]) {
    assert.throws(() => solveUserVector(V, wrong, 1, 1), SettingsError);
  }
});

test("where the equations have no usable solution the vector is zero, and nothing fails", () => {
  const zero = Float32Array.of(0, 0);
  const V = { values: new Float32Array(6), rows: 3, columns: 2 };
  assert.deepEqual(solveUserVector(V, [0], 1, 0), zero); // 0 / 0
  const tiny = { values: Float32Array.of(1, 0, 0, 2 ** -60, 1, 0), rows: 3, columns: 2 };
  assert.ok(solveUserVector(tiny, [0], 1, 1e-12).some((entry) => entry !== 0));
  assert.deepEqual(solveUserVector(tiny, [1], 1, 2 ** -110), zero); // beyond 2^40
  const huge = { values: new Float32Array(6).fill(3e38), rows: 3, columns: 2 };
  assert.deepEqual(solveUserVector(huge, [0], 1e300, 0), zero);
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
    assert.deepEqual(toUsable(x), isUsable ? x : new Float32Array(2));
  }
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
    const [slices, turns] = [[] as number[][], [] as number[]];
    setImmediate(() => turns.push(slices.length));
    for await (const slice of sliceRange(n, size)) slices.push(slice);
    assert.deepEqual(slices, wanted);
    assert.ok(
      turns.length === (wanted.length > 1 ? 1 : 0) && turns.every((at) => at < wanted.length),
    );
  }
});

/** List the loud directions as the protocol defines them, by a full sort. */
function listLoud({ a, x, count, offset }: LoudSettings): number[] {
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

const ranksOf = ({ count }: LoudSettings) => Array.from({ length: count }, (_, rank) => rank);

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
    assert.deepEqual(await findLoud(voice, ranksOf(voice)), listLoud(voice));
  }
});

test("the least and the largest numbers order exactly", async () => {
  const sizes = [2 ** -149, 2 ** -148, 3 * 2 ** -149, 2 ** -126, 1, 2 ** 89, 1 + 2 ** -23];
  const a = Float32Array.from([...sizes, ...sizes.map((size) => -size), 0]);
  const x = Float32Array.of(2 ** 40, -(2 ** -149), 1 + 2 ** -23, 0, 3 * 2 ** -149);
  const n = a.length * x.length;
  for (let count = 1; count <= n; count++) {
    const voice = { a, x, count, offset: (3 * count) % (2 * n) };
    assert.deepEqual(await findLoud(voice, ranksOf(voice)), listLoud(voice), `${count}`);
  }
});

const WORD = 1n << 64n;

test("every threshold is the other implementation's, to the last unit", () => {
  assert.ok(thresholds.length > 20);
  for (const { epsilon, flip, uniform } of thresholds) {
    assert.equal(computeFlipThreshold(epsilon), BigInt(`0x${flip}`), `flip at ${epsilon}`);
    for (const [loud, n, below] of uniform) {
      const threshold = computeUniformThreshold(epsilon, Number(loud), Number(n));
      assert.equal(threshold, BigInt(`0x${below}`), `${loud} of ${n} at ${epsilon}`);
    }
  }
});

test("no coin for an epsilon that cannot be kept", () => {
  for (const epsilon of [0, -1, 40.00000000000001, NaN, Infinity]) {
    assert.throws(() => computeFlipThreshold(epsilon), SettingsError);
    assert.throws(() => computeUniformThreshold(epsilon, 1, 2), SettingsError);
  }
  assert.equal(computeFlipThreshold(5e-324), WORD / 2n);
});

test("every part of a long run of bytes is filled", () => {
  const data = drawSystemEntropy(3 * 65_536 + 5);
  assert.equal(data.length, 3 * 65_536 + 5);
  for (let at = 0; at < data.length; at += 4096) {
    const piece = data.subarray(at, at + 4096);
    assert.ok(piece.length < 32 || piece.some((byte) => byte !== 0), `at ${at}`);
  }
});
