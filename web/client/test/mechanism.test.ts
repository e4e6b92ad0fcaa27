import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHex, toHex } from "../src/bytes.js";
import { flipThreshold, uniformThreshold } from "../src/coin.js";
import { SettingsError } from "../src/errors.js";
import type { Mechanism } from "../src/mechanism/base.js";
import { makeReports } from "../src/mechanism/index.js";
import { loudRows } from "../src/mechanism/loudest.js";
import { MECHANISMS } from "../src/mechanism/registry.js";
import { hadamardSign, nextPowerOfTwo, publicSigns, transform } from "../src/mechanism/walsh.js";
import { decodeItems } from "../src/model.js";
import type { Matrix } from "../src/user.js";
import {
  fromFloatHex,
  fromWords,
  manifestWith,
  mechanisms,
  protocol,
  seeded,
  wordFrom,
} from "./vectors.js";

function example(mechanism: Mechanism, items: number, factors: number, seed: number) {
  const random = seeded(seed);
  const values = Float32Array.from({ length: items * factors }, () => random() - 0.5);
  const V: Matrix = { values, rows: items, columns: factors };
  const parameters = { directions_seed: 7, loud: Math.max(1, Math.floor(items / 4)) };
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
  const values = decodeItems(fromHex(protocol.model.bytes), items, factors);
  const words = fromWords(protocol.reports.words);
  const V = { values, rows: items, columns: factors };
  const made = await makeReports(manifestWith({}), V, protocol.reports.history, words);
  assert.deepEqual([...made.reports], protocol.reports.values);
  assert.deepEqual(made.told, [
    { index: 2, bit: 0, row: 1, column: 0, coin: "kept" },
    { index: 11, bit: 1, row: 5, column: 1, coin: "random" },
    { index: 4, bit: 0, row: 2, column: 0, coin: "kept" },
    { index: 8, bit: 1, row: 4, column: 0, coin: "kept" },
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
    const columns = mechanism.directions({ ...manifest, items: 1 });
    assert.equal(reports.length, 50);
    told.forEach(({ index, bit, row, column }, number) => {
      assert.equal(reports[number], index * 2 + bit);
      assert.equal(index, row * columns + column);
      assert.ok(index < mechanism.directions(manifest));
    });
    const coins = new Set(told.map(({ coin }) => coin));
    const other = mechanism.odds(manifest.terms).random > 0 ? "random" : "turned";
    assert.deepEqual(coins, new Set(["kept", other]));
  });

  test(`${name}: somebody who touched nothing reports as much as everybody`, async () => {
    const { manifest, V, words } = example(mechanism, 20, 3, 2);
    const { reports } = await makeReports(manifest, V, [], words);
    assert.equal(reports.length, 50);
  });

  test(`${name}: the coin alone decides between the two signs`, async () => {
    const { manifest, V, words } = example(mechanism, 20, 3, 3);
    const made = async (coin: bigint) => {
      const tossed = words.map((word, at) => (at % 4 === 2 ? coin : word));
      return (await makeReports(manifest, V, [3, 4, 17], tossed)).told;
    };
    const [truth, other] = [await made(2n ** 64n - 1n), await made(0n)];
    assert.ok(truth.every(({ coin }) => coin === "kept"));
    assert.ok(other.every(({ coin }) => coin !== "kept"));
    if (mechanism.odds(manifest.terms).random > 0) return;
    assert.deepEqual(
      other,
      truth.map((one) => ({ ...one, bit: 1 - one.bit, coin: "turned" })),
    );
  });

  test(`${name}: the word below the threshold turns, the threshold itself does not`, async () => {
    const { manifest, V, words } = example(mechanism, 20, 3, 6);
    const { epsilon, parameters } = manifest.terms;
    const below =
      "loud" in mechanism.parameters
        ? uniformThreshold(epsilon, parameters.loud as number, 32)
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

  test(`${name}: other sizes than the manifest's are refused`, async () => {
    const { manifest, V, words } = example(mechanism, 20, 3, 5);
    for (const wrong of [words.subarray(1), words.subarray(4), new BigUint64Array(51 * 4 + 4)]) {
      await assert.rejects(makeReports(manifest, V, [], wrong), SettingsError);
    }
    await assert.rejects(makeReports(manifest, { ...V, rows: 19 }, [], words), SettingsError);
    await assert.rejects(makeReports(manifest, V, [20], words), SettingsError);
  });
}

test("loud rows are the largest agreements; ties go by the mask", () => {
  const a = Float32Array.of(0.5, -2, 0, 1);
  assert.deepEqual([...loudRows(a, 2, 0)], [2, 7]); // -(-2) and 1
  assert.deepEqual([...loudRows(a, 4, 0)], [1, 2, 4, 7]); // 0.5, and the tie of 0 at 4 and 5
  assert.deepEqual([...loudRows(a, 4, 1)], [1, 2, 5, 7]);
  for (const mask of [0, 5, 7]) {
    const wanted = [0, 1, 2].map((rank) => rank ^ mask).sort((one, other) => one - other);
    assert.deepEqual([...loudRows(new Float32Array(4), 3, mask)], wanted);
  }
  assert.deepEqual([...loudRows(Float32Array.of(-0, 0), 2, 3)], [2, 3]);
});

test("loud rows are those of a full sort", () => {
  const random = seeded(8);
  for (let round = 0; round < 100; round++) {
    const a = Float32Array.from({ length: 32 }, () => Math.floor(random() * 7) - 3);
    const mask = Math.floor(random() * 64);
    const count = 1 + Math.floor(random() * 32);
    const agreement = (row: number) => (row & 1 ? 1 : -1) * (a[row >> 1] as number);
    const order = Array.from({ length: 64 }, (_, row) => row).sort(
      (one, other) => agreement(other) - agreement(one) || (one ^ mask) - (other ^ mask),
    );
    const wanted = order.slice(0, count).sort((one, other) => one - other);
    assert.deepEqual([...loudRows(a, count, mask)], wanted);
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

test("a transform of columns is that of each column", () => {
  const wide = Float64Array.from({ length: 24 }, (_, at) => (at * 7) % 11);
  const columns = [0, 1, 2].map((f) => wide.filter((_, at) => at % 3 === f));
  transform(wide, 3);
  columns.forEach((column, f) => {
    transform(column);
    assert.deepEqual(
      wide.filter((_, at) => at % 3 === f),
      column,
    );
  });
});

test("powers of two, and signs with all of 24 bits", () => {
  assert.deepEqual([1, 2, 3, 9781, 2 ** 24].map(nextPowerOfTwo), [1, 2, 4, 16384, 2 ** 24]);
  assert.equal(hadamardSign(2 ** 24 - 1, 2 ** 24 - 1), 1);
  assert.equal(hadamardSign(2 ** 24 - 1, 2 ** 23 - 1), -1);
  assert.equal(hadamardSign(5, 2), 1);
});

test("public signs are those of the example and take every bit of a seed", async () => {
  assert.deepEqual([...(await publicSigns(7, "items", 5))], [-1, -1, -1, -1, 1]);
  assert.deepEqual([...(await publicSigns(7, "factors", 2))], [1, 1]);
  const long = await publicSigns(2 ** 53 - 1, "items", 600);
  const other = await publicSigns(2 ** 52 - 1, "items", 600);
  assert.notEqual(toHex(new Uint8Array(long)), toHex(new Uint8Array(other)));
  const minus = long.filter((sign) => sign === -1).length;
  assert.ok(minus > 230 && minus < 370, `${minus} of 600`);
});
