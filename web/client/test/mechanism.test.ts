/**
 * From a history and random words to reports, as in the other implementation; mechanisms plug in.
 */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { flipThreshold, systemEntropy, systemWords, uniformThreshold } from "../src/coin.js";
import { fromHex, utf8 } from "../src/encoding.js";
import { ProtocolError, SettingsError } from "../src/errors.js";
import { decodeManifest } from "../src/manifest.js";
import type { Mechanism, Person } from "../src/mechanism/base.js";
import {
  allRows,
  hadamardSign,
  loudAt,
  publicBytes,
  publicSigns,
  slices,
  transform,
  type Voice,
} from "../src/mechanism/loudest.js";
import { explain, MECHANISMS, makeReports, mechanismNamed } from "../src/mechanism/registry.js";
import {
  ascending,
  ascendingOrder,
  decodeItems,
  type Matrix,
  sumOfAllSquares,
  usable,
  userVector,
} from "../src/model.js";
import { brokenBy } from "../src/terms.js";
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
  const parameters = Object.fromEntries(
    Object.entries(mechanism.parameters).map(([name, { least }]) => [name, least]),
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
    const made = await makeReports(manifest, V, own, words);
    assert.deepEqual([...made.reports], vector.reports[user], `${vector.label}, user ${user}`);
  }
}

test("the epoch of the protocol's example", async () => {
  const { items, terms } = protocol.manifest.fields;
  const { factors } = terms;
  const V = decodeItems(fromHex(protocol.model.bytes), items, factors);
  const words = fromWords(protocol.reports.words);
  const made = await makeReports(manifestWith({}), V, protocol.reports.history, words);
  assert.deepEqual([...made.reports], protocol.reports.values);
  assert.deepEqual(made.told, [
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

  test(`${name}: what is told is what is reported`, async () => {
    const { manifest, V, words } = example(mechanism, 20, 3, 1);
    const { reports, told } = await makeReports(manifest, V, [3, 4, 17], words);
    assert.equal(reports.length, 50);
    told.forEach(({ index, bit, row, column }, number) => {
      assert.equal(reports[number], index * 2 + bit);
      assert.equal(index, row * V.columns + column);
      assert.ok(index < mechanism.directions(manifest));
    });
    const coins = new Set(told.map(({ coin }) => coin));
    const other = mechanism.odds(manifest.terms).random > 0 ? "random" : "turned";
    assert.deepEqual(coins, new Set(["kept", other]));
  });

  test(`${name}: the word below the threshold turns, the threshold itself does not`, async () => {
    const { manifest, V, words } = example(mechanism, 20, 3, 6);
    const { epsilon, parameters } = manifest.terms;
    const below =
      "loud" in mechanism.parameters
        ? uniformThreshold(epsilon, parameters.loud as number, mechanism.directions(manifest))
        : flipThreshold(epsilon);
    for (const [coin, isKept] of [
      [below, true],
      [below - 1n, false],
    ] as const) {
      const tossed = words.map((word, at) => (at % 4 === 2 ? coin : word));
      const { told } = await makeReports(manifest, V, [3, 4, 17], tossed);
      assert.ok(told.every((one) => (one.coin === "kept") === isKept));
    }
  });

  test(`${name}: without a usable user vector the reports are those of nobody's history`, async () => {
    const { manifest, V, words } = example(mechanism, 20, 3, 4);
    const none = { ...V, values: V.values.map((_, at) => (at === 9 ? 2 ** -60 : 0)) };
    const hopeless = { ...manifest, alpha: 1024, regularization: 1e-40 };
    const made = await makeReports(hopeless, none, [3, 4, 17], words);
    assert.deepEqual(made, await makeReports(hopeless, none, [], words));
  });
}

const WEB = new URL("../../../", import.meta.url);
const SOURCES = ["client/src/", "page/src/"];

/** Its code, without comments. */
function codeOf(path: string): string {
  const text = readFileSync(new URL(path, WEB), "utf8");
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
}

function namedIn(path: string): string[] {
  const code = codeOf(path);
  return MECHANISMS.map(({ name }) => name).filter((name) =>
    new RegExp(`\\b${name}\\b`).test(code),
  );
}

test("a mechanism's name stands in its own file and in the registry, and nowhere else", () => {
  const files = SOURCES.flatMap((folder) =>
    readdirSync(new URL(folder, WEB), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts"))
      .map((name) => folder + name),
  );
  const naming = files.map((file) => [file, namedIn(file)] as const);
  const own = MECHANISMS.map(({ name }) => [`client/src/mechanism/${name}.ts`, [name]] as const);
  const registry = [
    "client/src/mechanism/registry.ts",
    MECHANISMS.map(({ name }) => name),
  ] as const;
  assert.deepEqual(
    naming.filter(([, names]) => names.length > 0).sort(),
    [...own, registry].sort(),
  );
});

test("each has a name of its own, under which the shared vectors know it", () => {
  const registered = new Set(MECHANISMS.map(({ name }) => name));
  assert.equal(registered.size, MECHANISMS.length);
  const known = new Set<string>(mechanisms.map(({ mechanism }) => mechanism));
  assert.ok([...registered].every((name) => known.has(name)));
});

/** The vectors' manifest, its terms changed, and read again. */
function read(changes: object): ReturnType<typeof decodeManifest> {
  const { fields } = protocol.manifest;
  const terms = { ...fields.terms, loud_fraction: 0.5, ...changes };
  return decodeManifest(utf8(JSON.stringify({ ...fields, terms })));
}

test("each mechanism refuses what it does not have, and what it cannot work with", () => {
  const own = { directions_seed: 7, block: 4, loud: 6 };
  const { block: _, ...blockless } = own;
  const { loud: __, ...silent } = own;
  for (const parameters of [
    ...[silent, blockless, [], { ...own, more: 1 }, { ...own, directions_seed: -1 }],
    ...[0, 3, 1023, 2048, "4"].map((block) => ({ ...own, block })),
    ...[0, 17, "3"].map((loud) => ({ ...own, loud })),
    { ...own, block: 1, loud: 11 },
  ]) {
    assert.throws(() => read({ mechanism: "loudest", parameters }), ProtocolError);
  }
  for (const mechanism of ["coordinate", "louder", ["loudest"]]) {
    assert.throws(() => read({ mechanism, parameters: own }), ProtocolError);
  }
  assert.deepEqual(read({ mechanism: "coordinate", parameters: {} }).terms.parameters, {});
  for (let block = 1; block <= 1024; block *= 2) {
    const loud = { ...own, block, loud: Math.ceil(5 / block) * block * 2 };
    assert.deepEqual(read({ mechanism: "loudest", parameters: loud }).terms.parameters, loud);
    const more = { ...loud, loud: loud.loud + 1 };
    assert.throws(() => read({ mechanism: "loudest", parameters: more }), ProtocolError);
  }
});

const closeTo = (value: number, wanted: number) => assert.ok(Math.abs(value - wanted) < 1e-9);

test("a sign is kept e^epsilon times as often as it is turned", () => {
  const { terms } = manifestWith({ terms: { epsilon: 2.5 } });
  const { truth, chance, random } = mechanismNamed("coordinate").odds(terms);
  closeTo(truth / (1 - truth), Math.exp(2.5));
  assert.deepEqual([chance, random], [0.5, 0]);
});

test("a loud direction is e^epsilon times as likely as a quiet one", () => {
  const { terms } = manifestWith({ terms: { epsilon: 2.5, loudFraction: 5394 / 32768 } });
  const { truth, chance } = mechanismNamed("loudest").odds(terms);
  closeTo(truth / chance / ((1 - truth) / (1 - chance)), Math.exp(2.5));
  assert.equal(chance, 5394 / 32768);
});

test("a further mechanism is an object in the list", async (t) => {
  const always: Mechanism = {
    name: "always",
    about: "a report names the first direction.",
    parameters: { patience: { least: 1, most: ({ items }) => items, isFree: false } },
    directions: () => 1,
    loudFraction: () => 0.25,
    reports: (_, draws) => draws.map(() => ({ index: 0, bit: 1, row: 0, column: 0, coin: "kept" })),
    odds: () => ({ truth: 1, chance: 1, random: 0 }),
  };
  const list = MECHANISMS as Mechanism[];
  list.push(always);
  t.after(() => list.pop());
  const asking = (patience: number) => read({ mechanism: "always", parameters: { patience } });
  assert.throws(() => asking(6), /patience: a whole number in 1..5/);
  const manifest = asking(5);
  const columns = manifest.terms.factors;
  const V = { values: new Float32Array(10), rows: manifest.items, columns };
  const words = new BigUint64Array(4 * (manifest.terms.reports + 1));
  const { reports } = await makeReports(manifest, V, [], words);
  assert.deepEqual([...reports], [1, 1, 1, 1]);
  assert.deepEqual(explain(manifest.terms), {
    about: always.about,
    odds: always.odds(manifest.terms),
  });
  // What is not free is pinned.
  const broken = brokenBy(manifest.terms, asking(4).terms);
  assert.deepEqual(broken, ["the mechanism's parameters would be patience 4, not patience 5"]);
});

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

test("order and repeats of the own items do not matter, items beyond the model are refused", () => {
  const V = matrixOf(20, 3, seeded(4));
  assert.deepEqual(userVector(V, [9, 1, 9, 4], 1, 1), userVector(V, [1, 4, 9], 1, 1));
  assert.deepEqual(ascending([10, 9, 9, 0], 11), [0, 9, 10]);
  for (const wrong of [[20], [-1], [1.5], [NaN]]) {
    assert.throws(() => userVector(V, wrong, 1, 1), SettingsError);
  }
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

test("the transform is the matrix of signs, and twice it is n times the same", () => {
  const values = Float64Array.from({ length: 16 }, (_, at) => at * at - 5);
  const once = values.slice();
  transform(once);
  const wanted = values.map((_, row) =>
    values.reduce((sum, value, column) => sum + hadamardSign(row, column) * value, 0),
  );
  assert.deepEqual(once, wanted);
  transform(once);
  assert.deepEqual(
    once,
    values.map((value) => 16 * value),
  );
});

test("an order is that of the numbers, of equal ones the lower place first", () => {
  const random = seeded(4);
  const ends = [0, 1, 2047, 2048, 2 ** 22 - 1, 2 ** 22, 2 ** 31, 2 ** 32 - 1];
  for (const length of [0, 1, 2, 100, 5000]) {
    for (const draw of [() => random() * 2 ** 32, () => ends[Math.floor(random() * 8)] as number]) {
      const keys = Uint32Array.from({ length }, draw);
      const wanted = Array.from(keys.keys()).sort(
        (one, other) => (keys[one] as number) - (keys[other] as number) || one - other,
      );
      assert.deepEqual([...ascendingOrder(keys)], wanted);
    }
  }
});

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

test("no coin for an epsilon that cannot be kept", () => {
  for (const epsilon of [0, -1, 40.00000000000001, NaN, Infinity]) {
    assert.throws(() => flipThreshold(epsilon), SettingsError);
    assert.throws(() => uniformThreshold(epsilon, 1, 2), SettingsError);
  }
  assert.equal(flipThreshold(5e-324), WORD / 2n);
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
