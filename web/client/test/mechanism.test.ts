import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHex } from "../src/bytes.js";
import { flipThreshold, uniformThreshold } from "../src/coin.js";
import { SettingsError } from "../src/errors.js";
import type { Mechanism } from "../src/mechanism/base.js";
import { makeReports } from "../src/mechanism/index.js";
import { MECHANISMS } from "../src/mechanism/registry.js";
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
  const values = decodeItems(fromHex(protocol.model.bytes), items, factors);
  const words = fromWords(protocol.reports.words);
  const V = { values, rows: items, columns: factors };
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

  test(`${name}: other sizes than the manifest's are refused`, async () => {
    const { manifest, V, words } = example(mechanism, 20, 3, 5);
    for (const wrong of [words.subarray(1), words.subarray(4), new BigUint64Array(51 * 4 + 4)]) {
      await assert.rejects(makeReports(manifest, V, [], wrong), SettingsError);
    }
    await assert.rejects(makeReports(manifest, { ...V, rows: 19 }, [], words), SettingsError);
    await assert.rejects(makeReports(manifest, V, [20], words), SettingsError);
  });
}
