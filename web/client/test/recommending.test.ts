/**
 * Recommending: the other implementation's offline, without the own items, with reasons that add up.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHex } from "../src/bytes.js";
import { type Catalogue, createCatalogue } from "../src/catalogue.js";
import type { SignedManifest } from "../src/epoch.js";
import { openManifest } from "../src/manifest.js";
import type { Matrix } from "../src/model.js";
import { computeRecencyWeights } from "../src/recency.js";
import {
  computeScores,
  listSimilar,
  personalize,
  type Reason,
  recommend,
  scoreItems,
} from "../src/recommending.js";
import { prepareRelease, type Release } from "../src/release.js";
import { buildTags, type ItemTags } from "../src/tags.js";
import {
  buildWideModel,
  computeScore,
  dropFactors,
  solveWideVector,
  splitScore,
} from "../src/wide.js";
import { manifestWith, recommending, seeded } from "./vectors.js";
import { AT_ONCE, FACTORS, ITEMS, item, itemMatrix, traitsOf, World } from "./world.js";

const UNTAGGED = (): ItemTags => ({});

async function releaseOf(world: World, V?: Matrix, traits = traitsOf): Promise<Release> {
  const signed = await openManifest(world.manifest, fromHex(world.key));
  const items = Array.from({ length: ITEMS }, (_, n) => {
    return { id: item(n), title: `Title ${n}`, tags: traits(n) };
  });
  const own = { values: itemMatrix(1), rows: ITEMS, columns: FACTORS };
  return prepareRelease(signed, V ?? own, createCatalogue(items));
}

/** Touched one after the other. */
function inOrder(ids: readonly string[]): Map<string, number> {
  return new Map(ids.map((id, at) => [id, at]));
}

test("the best items that are not the own ones", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.sync(AT_ONCE);
  const calls = world.requests.length;
  const list = await client.recommend(ITEMS);
  assert.equal(world.requests.length, calls);
  assert.equal(list.length, ITEMS - 3);
  const own = [item(3), item(7), item(20)];
  assert.ok(list.every(({ id }) => !own.includes(id)));
  const scores = list.map(({ score }) => score);
  assert.deepEqual(
    scores,
    [...scores].sort((a, b) => b - a),
  );
  const [best] = list;
  const number = Number(best?.id.slice(-4));
  assert.deepEqual([best?.title, best?.tags], [`Title ${number}`, traitsOf(number)]);
  const reasons = list.flatMap(({ reasons }) => reasons);
  assert.ok(reasons.every((reason) => reason.kind !== "item" || own.includes(reason.id)));
  assert.deepEqual(new Set(reasons.map(({ kind }) => kind)), new Set(["item", "tag"]));
  assert.deepEqual(await client.recommend(4), list.slice(0, 4));
});

test("what was touched last counts most, and recording it again moves it there", async (t) => {
  const world = await World.begin(t);
  const client = await world.open();
  await client.refresh();
  const orders: string[][] = [];
  for (const id of [item(3), item(7), item(20), item(3)]) {
    await client.record([id]);
    orders.push((await client.recommend(ITEMS)).map(({ id }) => id));
  }
  const release = await releaseOf(world);
  const wanted = recommend(release, inOrder([item(7), item(20), item(3)]), ITEMS);
  assert.deepEqual(
    orders[3],
    wanted.map(({ id }) => id),
  );
  assert.notDeepEqual(orders[2], orders[3]);
});

test("among equals the catalogue's order holds", async (t) => {
  const world = await World.begin(t);
  const values = new Float32Array(ITEMS * FACTORS).fill(0.25);
  const release = await releaseOf(world, { values, rows: ITEMS, columns: FACTORS }, UNTAGGED);
  const ids = recommend(release, inOrder([item(1)]), 4).map(({ id }) => id);
  assert.deepEqual(ids, [0, 2, 3, 4].map(item));
});

const SOLVING = { alpha: 4, regularization: 0.125, reportsBehind: 1000, hasShares: false };

/** Check that numbers equal the expected ones up to a relative error. */
function assertClose(values: Iterable<number>, wanted: Iterable<number>, error = 1e-9): void {
  const pairs = [...values].map((value, at) => [value, [...wanted][at] ?? Number.NaN] as const);
  assert.equal(pairs.length, [...wanted].length);
  for (const [here, there] of pairs) {
    assert.ok(Math.abs(here - there) <= error * Math.abs(there) + 1e-12, `${here}, not ${there}`);
  }
}

function matrixOf(rows: readonly (readonly number[])[]): Matrix {
  const columns = rows[0]?.length ?? 0;
  return { values: Float32Array.from(rows.flat()), rows: rows.length, columns };
}

/** Prepare a release whose manifest has only the parts that recommending looks at. */
function plainRelease(
  V: Matrix,
  catalogue: Catalogue,
  reportsBehind: number,
  mechanism = "loudest",
  hasStart = false,
): Release {
  const { alpha, regularization } = SOLVING;
  const manifest = manifestWith({
    ...{ alpha, regularization, reportsBehind, terms: { mechanism } },
    ...(hasStart ? {} : { start: null }),
  });
  const signed = { manifest, raw: new Uint8Array(), hash: new Uint8Array() };
  return prepareRelease({ ...signed, key: new Uint8Array() } as SignedManifest, V, catalogue);
}

for (const question of recommending) {
  test(`lists and reasons are the other implementation's: ${question.name}`, () => {
    const { answer } = question;
    const catalogue = createCatalogue(
      question.items as { id: string; title: string; tags: ItemTags }[],
    );
    const behind = "reports_behind" in question ? question.reports_behind : 1000;
    const mechanism = "names" in question ? "named" : "loudest";
    const V = matrixOf(question.V);
    const release = plainRelease(V, catalogue, behind, mechanism, "start" in question);
    const touched = new Map(Object.entries(question.touched as Record<string, number>));
    assert.deepEqual(
      catalogue.tags.names.map(({ kind, name }) => [kind, name]),
      answer.tags,
    );
    assertClose(release.wide.popularity, answer.popularity);
    const listed = [...touched].filter(([id]) => catalogue.rowsById.has(id));
    assertClose(
      computeRecencyWeights(listed.map(([, at]) => at)),
      Object.values(answer.weights),
      1e-12,
    );
    assertClose(computeScores(personalize(release, touched)), answer.scores);
    const list = recommend(release, touched, 5);
    const best = answer.best as [string, [string | string[] | null, number][]][];
    assert.deepEqual(
      list.map(({ id, reasons }) => [id, reasons.map(nameOf)]),
      best.map(([id, reasons]) => [id, reasons.map(([what]) => what)]),
    );
    assertClose(
      list.flatMap(({ reasons }) => reasons.map(({ share }) => share)),
      best.flatMap(([, reasons]) => reasons.map(([, share]) => share)),
      1e-7,
    );
  });
}

for (const question of recommending) {
  test(`scores and similar items are those of the lists: ${question.name}`, () => {
    const catalogue = createCatalogue(
      question.items as { id: string; title: string; tags: ItemTags }[],
    );
    const behind = "reports_behind" in question ? question.reports_behind : 1000;
    const release = plainRelease(matrixOf(question.V), catalogue, behind);
    const touched = new Map(Object.entries(question.touched as Record<string, number>));
    const ids = catalogue.items.map(({ id }) => id);
    const scores = [...computeScores(personalize(release, touched))];
    assert.deepEqual(scoreItems(release, touched, [...ids, "unknown"]), [...scores, null]);
    assert.deepEqual(listSimilar(release, "unknown", 5), []);
    const [id = ""] = ids;
    const listed = recommend(release, new Map([[id, 1]]), ids.length);
    assert.deepEqual(
      listSimilar(release, id, 3).map((one) => [one.id, one.score]),
      listed
        .filter(({ score }) => score > 0)
        .slice(0, 3)
        .map((one) => [one.id, one.score]),
    );
    const reasons = listSimilar(release, id, ids.length).flatMap((one) => one.reasons);
    assert.deepEqual(
      reasons.filter(({ kind }) => kind !== "tag"),
      [],
    );
  });
}

test("what is touched now makes no item similar", () => {
  const items = ["a", "b", "c", "d"].map((id) => ({
    ...{ id, title: id, tags: { genre: "cd".includes(id) ? ["x"] : [] } },
  }));
  const V = { values: Float32Array.of(0.1, 0.9, 0.2, 0.1), rows: 4, columns: 1 };
  const release = plainRelease(V, createCatalogue(items), 1, "named");
  assert.deepEqual(
    recommend(release, new Map([["c", 1]]), 1).map(({ id }) => id),
    ["b"],
  );
  assert.deepEqual(
    listSimilar(release, "c", 3).map(({ id }) => id),
    ["d"],
  );
});

function nameOf(reason: Reason): string | string[] | null {
  if (reason.kind === "now") return null;
  return reason.kind === "item" ? reason.id : [reason.tag, reason.name];
}

const GENRES = ["a", "b", "c", "d"];

function someTraits(random: () => number): ItemTags {
  const genre = GENRES.filter(() => random() < 0.3);
  return random() < 0.2 ? {} : { genre, year: 1950 + Math.floor(random() * 70) };
}

function someMatrix(random: () => number, rows: number): Matrix {
  const values = Float32Array.from({ length: rows * 3 }, (_, place) => {
    const isNew = Math.floor(place / 3) % 9 === 8;
    return isNew ? 0 : random() - 0.5 + (place % 3 === 0 ? 0.4 : 0);
  });
  return { values, rows, columns: 3 };
}

test("a score is the sum of its parts, for every history and item", () => {
  const random = seeded(21);
  for (let round = 0; round < 30; round++) {
    const tags = buildTags(Array.from({ length: 80 }, () => someTraits(random)));
    const V = someMatrix(random, 80);
    const settings = { ...SOLVING, hasShares: round % 2 === 1 };
    const model = buildWideModel(settings, round % 5 > 0 ? V : dropFactors(V), tags);
    const own = [...Array(80).keys()].filter(() => random() < 0.1);
    const weights = Float64Array.from(own, () => 0.03 + 0.97 * random());
    const solved = solveWideVector(model, own, weights);
    for (let item = 0; item < 80; item++) {
      const parts = splitScore(model, solved, item);
      const sum = [...parts.ownItems, ...parts.tags.values(), parts.now].reduce(
        (one, other) => one + other,
        0,
      );
      assert.ok(Math.abs(sum - computeScore(model, solved, item)) < 1e-9);
      assert.ok(
        round % 5 > 0 || parts.ownItems.every((part) => part === 0),
        "an untaught V is silent",
      );
    }
  }
});

test("where the equations have no finite solution nobody is told anything, and nothing fails", () => {
  const V = { values: Float32Array.of(1, 1, 0, 1, 1, 0, 1, 1, 0), rows: 3, columns: 3 };
  const model = buildWideModel({ ...SOLVING, regularization: 0 }, V, buildTags([{}, {}, {}]));
  const solved = solveWideVector(model, [0]); // 0 / 0
  const parts = splitScore(model, solved, 1);
  assert.deepEqual([...solved.x, ...parts.ownItems], [0, 0, 0, 0]);
});

test("a list of 10,000 items with 60 tags, for somebody with 500, takes a moment", () => {
  const random = seeded(1);
  const items = Array.from({ length: 10_000 }, (_, number) => {
    const genre = [0, 1, 2].map((one) => `${Math.floor((random() * 50) / 3) * 3 + one}`);
    const tags = { genre, year: 1920 + Math.floor(random() * 100) };
    return { id: `${number}`, title: "A", tags };
  });
  const catalogue = createCatalogue(items);
  assert.ok(catalogue.tags.names.length >= 60);
  const values = Float32Array.from({ length: 10_000 * 32 }, () => random() - 0.4);
  const release = plainRelease({ values, rows: 10_000, columns: 32 }, catalogue, 1);
  const touched = inOrder(Array.from({ length: 500 }, (_, n) => `${17 * n}`));
  const times = Array.from({ length: 12 }, () => {
    const begun = performance.now();
    recommend(release, touched, 10);
    return performance.now() - begun;
  });
  assert.ok(Math.min(...times) < 100, `${times} ms`);
});
