/**
 * A device says nothing but its reports: whatever a server publishes within the public bounds, two
 * histories that differ in one item give the same requests, sizes, times and charges for the same
 * coins.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { IDBFactory } from "fake-indexeddb";
import { toHex } from "../src/bytes.js";
import { findMechanism, MECHANISMS, makeReports } from "../src/mechanism/registry.js";
import type { Matrix } from "../src/model.js";
import { parseTermsBlock, toFields } from "../src/terms.js";
import { computeLead } from "../src/timing.js";
import { solveUserVector } from "../src/vector.js";
import { manifestWith, seeded, wordFrom } from "./vectors.js";
import { charges, DAY, encodeCatalogue, encodeModel, item, rounds, TERMS, World } from "./world.js";

type Random = () => number;

function one<Value>(random: Random, from: readonly Value[]): Value {
  return from[Math.floor(random() * from.length)] as Value;
}

/** The ends of what a model may hold, and what lies between. */
const ENTRIES = [0, 0, 2 ** -60, 2 ** -30, 1e-3, 1, 2 ** 10, 2 ** 20].flatMap((size) => [
  size,
  -size,
]);
const ALPHAS = [0, 1e-30, 0.1, 1, 1024];
const LAMBDAS = [1e-12, 1e-12, 1e-6, 1, 1e6];

/** Draw what a hostile server could publish: well-formed, and within every bound. */
function drawHostileRelease(random: Random) {
  const isSingular = random() < 0.5;
  const items = 1 + Math.floor(random() * 12);
  const factors = (isSingular ? 2 : 1) + Math.floor(random() * 3);
  const values = isSingular ? sameRows(random, items, factors) : extremes(random, items * factors);
  const [alpha, regularization] = isSingular
    ? [random(), 1e-12]
    : [one(random, ALPHAS), one(random, LAMBDAS)];
  const V = { values, rows: items, columns: factors };
  const terms = askedTerms(random, items, factors);
  const epochs_left = one(random, [0, 0, 0, 1, 2000]);
  return { items, alpha, regularization, epochs_left, terms, V };
}

function extremes(random: Random, length: number): Float32Array {
  return Float32Array.from({ length }, () => one(random, ENTRIES));
}

/**
 * Equations of rank 1, in which the least lambda is lost: whether they have a solution is up to the
 * rounding, and so to the history. Version 1 fell silent here.
 */
function sameRows(random: Random, items: number, factors: number): Float32Array {
  const row = Array.from({ length: factors }, () => (0.3 + 0.7 * random()) * 2 ** 20);
  return Float32Array.from({ length: items * factors }, (_, at) => row[at % factors] as number);
}

function askedTerms(random: Random, items: number, factors: number) {
  const mechanism = one(random, MECHANISMS);
  const own = {
    ...{ directions_seed: Math.floor(random() * 2 ** 53), block: one(random, [1, 4, 256]) },
    loud: one(random, [1, items, items * factors]),
    names: one(
      random,
      [items + 1, items + 2, 500].map((names) => names + (names % 2)),
    ),
  };
  const parameters = Object.fromEntries(
    Object.keys(mechanism.parameters).map((name) => [name, own[name as keyof typeof own]]),
  );
  return {
    ...toFields(TERMS),
    ...{ mechanism: mechanism.name, parameters, loud_fraction: 0.5, factors },
    ...{ epsilon: one(random, [1e-6, 2.5, 40]), reports: 1 + Math.floor(random() * 3) },
    ...{ share: one(random, [2 ** -32, 0.5, 1, 1, 1, 1]), max_items: 12 },
  };
}

/** Draw two histories that differ in one item. */
function drawNeighbours(random: Random, items: number): [number[], number[]] {
  const turned = Math.floor(random() * items);
  const rest = Array.from({ length: items }, (_, at) => at).filter(
    (at) => at !== turned && random() < 0.4,
  );
  return [rest, [...rest, turned]];
}

/** Sync a device; return all that others could see of it, and how many coins it tossed. */
async function observeDevice(world: World, own: readonly number[], terms: object, seed: number) {
  world.now = 1.25 * DAY;
  world.factory = new IDBFactory();
  const [random, seen] = [seeded(seed), [] as unknown[]];
  const bytes = (size: number) => Uint8Array.from({ length: size }, () => random() * 256);
  const client = await world.open({
    limit: 1e6,
    entropy: (size) => {
      seen.push(["entropy", size]);
      return bytes(size);
    },
    words: (reports) => {
      seen.push(["words", reports]);
      world.now += 0.15 * own.length; // a longer history takes longer
      return BigUint64Array.from({ length: 4 * (reports + 1) }, () => wordFrom(random));
    },
    fetch: (input, init) => {
      const body = init?.body as Uint8Array | undefined;
      const head = body === undefined ? "" : `${body.length} ${toHex(body.subarray(0, 56))}`;
      const { headers, method, cache, credentials } = init ?? {};
      seen.push([String(input), method, headers, cache, credentials, head, sent(world)]);
      return fetch(input, init);
    },
  });
  await client.accept(parseTermsBlock(terms));
  await client.record(own.map(item));
  const synced = await client.sync();
  const again = await client.sync();
  client.close();
  const paid = (await charges(world)).map((charge) => ({ ...charge, purpose: "" }));
  return { seen, synced, again, paid };
}

/** Times to the microsecond: sums of floats in another order may differ in their last bits. */
const sent = (world: World) => Math.round(world.now * 1e6);

const ROUNDS = rounds(30);

test("histories that differ in one item look the same, whatever the server publishes", async (t) => {
  const world = await World.begin(t);
  const random = seeded(12);
  const counts = { sent: 0, "sitting out": 0, oneWithoutSolution: 0 };
  for (let round = 0; round < ROUNDS; round++) {
    const { V, ...published } = drawHostileRelease(random);
    const model = await world.add(encodeModel(V.values, V.rows, V.columns));
    const catalogue = await world.add(encodeCatalogue(V.rows));
    await world.publish(1, { ...published, model, catalogue });
    const [without, withIt] = drawNeighbours(random, V.rows);
    const one = await observeDevice(world, without, published.terms, round);
    const other = await observeDevice(world, withIt, published.terms, round);
    assert.deepEqual(other, one, `round ${round}: ${JSON.stringify(published)}`);
    counts[one.synced.outcome as keyof typeof counts] += 1;
    const differ = hasOneWithoutSolution(V, published, without, withIt);
    counts.oneWithoutSolution += differ && one.synced.outcome === "sent" ? 1 : 0;
  }
  // The test looks where it should: all sorts of epochs, and those that would have told one apart.
  assert.ok(
    counts.sent > 0.4 * ROUNDS && counts["sitting out"] > ROUNDS / 15,
    JSON.stringify(counts),
  );
  assert.ok(counts.oneWithoutSolution > ROUNDS / 30, JSON.stringify(counts));
});

/** Check whether one of two people has a user vector and the other one, with items, has none. */
function hasOneWithoutSolution(
  V: Matrix,
  { alpha, regularization }: { alpha: number; regularization: number },
  ...histories: [number[], number[]]
): boolean {
  const isZero = histories.map((own) =>
    solveUserVector(V, own, alpha, regularization).every((x) => !x),
  );
  return histories[0].length > 0 && isZero[0] !== isZero[1];
}

test("nothing that is computed from a history fails or leaves its range", async () => {
  const random = seeded(13);
  for (let round = 0; round < rounds(600); round++) {
    const { V, items, alpha, regularization, terms } = drawHostileRelease(random);
    const manifest = manifestWith({ items, alpha, regularization, terms: parseTermsBlock(terms) });
    const own = drawNeighbours(random, V.rows)[1];
    const reports = manifest.terms.reports;
    const words = BigUint64Array.from({ length: 4 * (reports + 1) }, () => wordFrom(random));
    const batch = await makeReports(manifest, V, own, words);
    assert.equal(batch.reports.length, reports);
    const directions = findMechanism(manifest.terms.mechanism).countDirections(manifest);
    assert.ok(batch.readable.every(({ index }) => index >= 0 && index < directions));
  }
});

test("the largest values within the bounds stay finite", async () => {
  const [items, factors] = [4096, 4];
  const values = new Float32Array(items * factors).fill(2 ** 20);
  const V = { values, rows: items, columns: factors };
  const x = new Float32Array(factors).fill(2 ** 40);
  const all = Array.from({ length: items }, (_, at) => at);
  const words = new BigUint64Array(4 * 3).fill(2n ** 64n - 1n);
  for (const { name, parameters } of MECHANISMS) {
    const most = { directions_seed: 1, block: 1024, loud: 1, names: 8192 };
    const own = Object.fromEntries(
      Object.keys(parameters).map((parameter) => [parameter, most[parameter as keyof typeof most]]),
    );
    const terms = { ...TERMS, mechanism: name, parameters: own, factors, reports: 2 };
    const manifest = manifestWith({ items, alpha: 1024, terms });
    const draw = { direction: 2n ** 63n, rounding: 0n, coin: 2n ** 64n - 1n };
    const person = { manifest, V, own: all, x };
    const reports = await findMechanism(name).makeReports(person, [draw], words[0] as bigint);
    // Everybody's gradient is positive here (predictions are far too high), in every direction that
    // is not orthogonal to it: a NaN or an infinity would have come out as minus or as a tie.
    assert.equal(reports.length, 1);
    assert.ok((reports[0]?.index ?? -1) < items * factors);
    if (name === "coordinate") assert.equal(reports[0]?.bit, 1);
  }
});

test("the moment leaves time for the history, so the test above could tell", () => {
  const longest = 0.15 * 12;
  assert.ok(longest < computeLead(manifestWith({})));
});
