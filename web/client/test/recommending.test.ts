/**
 * Recommending: the other implementation's offline, without the own items, with reasons that add up.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Catalogue, catalogueOf, type Traits, tagsOf } from "../src/catalogue.js";
import { fromHex } from "../src/encoding.js";
import { openManifest, type SignedManifest } from "../src/manifest.js";
import type { Matrix } from "../src/model.js";
import {
  personalOf,
  type Reason,
  recency,
  recommendations,
  scoresOf,
} from "../src/recommending.js";
import { type Release, takenIn } from "../src/release.js";
import { partsOf, scoreOf, solution, wideModel } from "../src/wide.js";
import { speed } from "./speed.js";
import { manifestWith, recommending, seeded } from "./vectors.js";
import { AT_ONCE, FACTORS, ITEMS, item, itemMatrix, traitsOf, World } from "./world.js";

const UNTAGGED = (): Traits => ({});

async function releaseOf(world: World, V?: Matrix, traits = traitsOf): Promise<Release> {
  const signed = await openManifest(world.manifest, fromHex(world.key));
  const items = Array.from({ length: ITEMS }, (_, n) => {
    return { id: item(n), title: `Title ${n}`, tags: traits(n) };
  });
  const own = { values: itemMatrix(1), rows: ITEMS, columns: FACTORS };
  return takenIn(signed, V ?? own, catalogueOf(items));
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
  const found = await client.recommend(ITEMS);
  assert.equal(world.requests.length, calls);
  assert.equal(found.length, ITEMS - 3);
  const own = [item(3), item(7), item(20)];
  assert.ok(found.every(({ id }) => !own.includes(id)));
  const scores = found.map(({ score }) => score);
  assert.deepEqual(
    scores,
    [...scores].sort((a, b) => b - a),
  );
  assert.equal(found[0]?.title, `Title ${Number(found[0]?.id.slice(-4))}`);
  assert.deepEqual(found[0]?.tags, traitsOf(Number(found[0]?.id.slice(-4))));
  const reasons = found.flatMap(({ because }) => because);
  assert.ok(reasons.every((reason) => reason.kind === "tag" || own.includes(reason.id)));
  assert.deepEqual(new Set(reasons.map(({ kind }) => kind)), new Set(["item", "tag"]));
  assert.deepEqual(await client.recommend(4), found.slice(0, 4));
});

test("what is added and removed changes them at once", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.refresh();
  const [best] = await client.recommend(1);
  assert.ok(best);
  await client.record([best.id]);
  assert.ok((await client.recommend(ITEMS)).every(({ id }) => id !== best.id));
  await client.remove([best.id]);
  assert.deepEqual(await client.recommend(1), [best]);
});

test("a model must be there, and at least one item be asked for", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await assert.rejects(client.recommend(), { name: "StoreError", message: /no model/ });
  await client.refresh();
  for (const n of [0, -1, 1.5, Number.NaN]) {
    await assert.rejects(client.recommend(n), { name: "SettingsError" });
  }
});

test("who touched everything is recommended nothing", async (t) => {
  const world = await World.begin(t);
  const client = await world.open();
  await client.record(Array.from({ length: ITEMS }, (_, n) => item(n)));
  await client.refresh();
  assert.deepEqual(await client.recommend(5), []);
});

test("reasons are the largest positive parts, as shares of all positive ones", async (t) => {
  const release = await releaseOf(await World.begin(t));
  const random = seeded(11);
  const lengths = new Set<number>();
  for (let round = 0; round < 30; round += 1) {
    const own = [...Array(ITEMS).keys()].filter(() => random() < 0.05 + round / 60);
    const touched = inOrder(own.map(item));
    for (const each of recommendations(release, touched, 5)) {
      const all = speakingFor(release, touched, Number(each.id.slice(-4)));
      assert.deepEqual(each.because, all.slice(0, 3));
      assert.ok(all.every(({ share }) => share > 0 && share <= 1));
      lengths.add(each.because.length);
    }
  }
  assert.ok(lengths.has(3));
});

/** Everything that speaks for an item, the largest first, from the parts of its score. */
function speakingFor(release: Release, touched: Map<string, number>, row: number): Reason[] {
  const { tags } = release.catalogue;
  const { solved, rows, columns } = personalOf(release, touched);
  const parts = partsOf(release.wide, solved, row);
  const own = rows.map((number, at) => {
    const reason = { kind: "item", id: item(number), title: `Title ${number}` } as const;
    return { ...reason, share: parts.own[at] ?? 0 };
  });
  const ofTags = [...parts.tags].filter(([column]) => columns.has(column));
  const theirs = ofTags.map(([column, share]) => {
    const { kind = "", name = "" } = tags.names[column] ?? {};
    return { kind: "tag", tag: kind, name, share } as const;
  });
  const speaking = [...own, ...theirs].filter(({ share }) => share > 0);
  const total = speaking.reduce((sum, { share }) => sum + share, 0);
  return speaking
    .sort((a, b) => b.share - a.share)
    .map((reason) => ({ ...reason, share: reason.share / total }));
}

test("a tag is a reason only for who has touched an item that has it", async (t) => {
  const onlyOdd = (n: number): Traits => (n % 2 === 0 ? { genre: ["even"] } : { genre: ["odd"] });
  const release = await releaseOf(await World.begin(t), undefined, onlyOdd);
  const found = recommendations(release, inOrder([1, 3, 5].map(item)), ITEMS);
  const named = found.flatMap(({ because }) => because).filter(({ kind }) => kind === "tag");
  assert.ok(named.length > 0);
  assert.ok(named.every((reason) => reason.kind === "tag" && reason.name === "odd"));
});

test("what was touched last counts most, and recording it again moves it there", async (t) => {
  const world = await World.begin(t);
  const client = await world.open();
  await client.refresh();
  const orders: string[][] = [];
  for (const id of [item(3), item(7), item(20), item(3)]) {
    await client.record([id]);
    orders.push((await client.recommend(ITEMS)).map((each) => each.id));
  }
  const release = await releaseOf(world);
  const wanted = recommendations(release, inOrder([item(7), item(20), item(3)]), ITEMS);
  assert.deepEqual(
    orders[3],
    wanted.map(({ id }) => id),
  );
  assert.notDeepEqual(orders[2], orders[3]);
});

test("before the first reports tags alone speak, and without tags nothing does", async (t) => {
  const world = await World.begin(t, { reports_behind: 0 });
  const touched = inOrder([item(3), item(9)]);
  const found = recommendations(await releaseOf(world), touched, 5);
  const reasons = found.flatMap(({ because }) => because);
  assert.ok(reasons.length > 0 && reasons.every(({ kind }) => kind === "tag"));
  const untagged = recommendations(await releaseOf(world, undefined, UNTAGGED), touched, 3);
  assert.deepEqual(
    untagged.map(({ id, because }) => [id, because]),
    [0, 1, 2].map((n) => [item(n), []]),
  );
});

test("without a history popular items come first in any basis, and need no reason", async (t) => {
  // A model of people whose taste is popularity alone, turned by an angle.
  const world = await World.begin(t);
  const noise = seeded(5);
  const plain = Array.from(
    { length: ITEMS },
    (_, n) => [1 - n / 60, 0.01 * (noise() - 0.5)] as const,
  );
  for (const angle of [0, 1, 2, 3, 4, 5]) {
    const [cosine, sine] = [Math.cos(angle), Math.sin(angle)];
    const values = Float32Array.from(
      plain.flatMap(([a, b]) => [a * cosine - b * sine, a * sine + b * cosine]),
    );
    const release = await releaseOf(world, { values, rows: ITEMS, columns: 2 });
    const found = recommendations(release, new Map([["not known", 1]]), 5);
    assert.deepEqual(
      found.map(({ id }) => id),
      [0, 1, 2, 3, 4].map(item),
    );
    assert.deepEqual(
      found.flatMap(({ because }) => because),
      [],
    );
  }
});

test("among equals the catalogue's order holds", async (t) => {
  const world = await World.begin(t);
  const values = new Float32Array(ITEMS * FACTORS).fill(0.25);
  const release = await releaseOf(world, { values, rows: ITEMS, columns: FACTORS }, UNTAGGED);
  const found = recommendations(release, inOrder([item(1)]), 4).map(({ id }) => id);
  assert.deepEqual(found, [0, 2, 3, 4].map(item));
});

const SOLVING = { alpha: 4, regularization: 0.125, reportsBehind: 1000 };

function near(found: Iterable<number>, wanted: Iterable<number>, most = 1e-9): void {
  const pairs = [...found].map((value, at) => [value, [...wanted][at] ?? Number.NaN] as const);
  assert.equal(pairs.length, [...wanted].length);
  for (const [here, there] of pairs) {
    assert.ok(Math.abs(here - there) <= most * Math.abs(there) + 1e-12, `${here}, not ${there}`);
  }
}

function matrixOf(rows: readonly (readonly number[])[]): Matrix {
  return { values: Float32Array.from(rows.flat()), rows: rows.length, columns: 3 };
}

/** The parts of a manifest that recommending looks at. */
function plainRelease(V: Matrix, catalogue: Catalogue, reportsBehind: number): Release {
  const manifest = manifestWith({ ...SOLVING, reportsBehind });
  const signed = { manifest, raw: new Uint8Array(), hash: new Uint8Array() };
  return takenIn({ ...signed, key: new Uint8Array() } as SignedManifest, V, catalogue);
}

for (const question of recommending) {
  test(`lists and reasons are the other implementation's: ${question.name}`, () => {
    const { answer } = question;
    const catalogue = catalogueOf(question.items as { id: string; title: string; tags: Traits }[]);
    const behind = "reports_behind" in question ? question.reports_behind : 1000;
    const release = plainRelease(matrixOf(question.V), catalogue, behind);
    const touched = new Map(Object.entries(question.touched as Record<string, number>));
    assert.deepEqual(
      catalogue.tags.names.map(({ kind, name }) => [kind, name]),
      answer.tags,
    );
    near(release.wide.popularity, answer.popularity);
    const known = [...touched].filter(([id]) => catalogue.numbers.has(id));
    near(recency(known.map(([, at]) => at)), Object.values(answer.weights), 1e-12);
    near(scoresOf(personalOf(release, touched)), answer.scores);
    const found = recommendations(release, touched, 5);
    const best = answer.best as [string, [string | string[], number][]][];
    assert.deepEqual(
      found.map(({ id, because }) => [id, because.map(nameOf)]),
      best.map(([id, because]) => [id, because.map(([what]) => what)]),
    );
    near(
      found.flatMap(({ because }) => because.map(({ share }) => share)),
      best.flatMap(([, because]) => because.map(([, share]) => share)),
      1e-7,
    );
  });
}

function nameOf(reason: ReturnType<typeof recommendations>[0]["because"][0]): string | string[] {
  return reason.kind === "item" ? reason.id : [reason.tag, reason.name];
}

const GENRES = ["a", "b", "c", "d"];

function someTraits(random: () => number): Traits {
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

test("a score is the sum of its parts, whoever asks about whatever item", () => {
  const random = seeded(21);
  for (let round = 0; round < 30; round++) {
    const tags = tagsOf(Array.from({ length: 80 }, () => someTraits(random)));
    const V = someMatrix(random, 80);
    const model = wideModel({ ...SOLVING, reportsBehind: round % 5 }, V, tags);
    const own = [...Array(80).keys()].filter(() => random() < 0.1);
    const weights = Float64Array.from(own, () => 0.03 + 0.97 * random());
    const solved = solution(model, own, weights);
    for (let item = 0; item < 80; item++) {
      const parts = partsOf(model, solved, item);
      const sum = [...parts.own, ...parts.tags.values()].reduce((one, other) => one + other, 0);
      assert.ok(Math.abs(sum - scoreOf(model, solved, item)) < 1e-9);
      assert.ok(round % 5 > 0 || parts.own.every((part) => part === 0), "an untaught V is silent");
    }
  }
});

test("it solves the normal equations, with D as long as V and weights", () => {
  const random = seeded(22);
  const items = Array.from({ length: 60 }, () => someTraits(random));
  const [V, tags] = [someMatrix(random, 60), tagsOf(items)];
  const model = wideModel(SOLVING, V, tags);
  const [own, weights] = [[3, 8, 40], Float64Array.of(0.2, 1, 0.7)];
  const { x } = solution(model, own, weights);
  const W = items.map((_, item) => wideRow(model, item));
  const length = (column: number) => W.reduce((sum, row) => sum + (row[column] ?? 0) ** 2, 0);
  const mean = (length(0) + length(1) + length(2)) / 3;
  near(
    tags.names.map((_, k) => length(3 + k)),
    tags.names.map(() => mean),
  );
  const times = W.map((row) => row.reduce((sum, value, at) => sum + value * (x[at] ?? 0), 0));
  for (let at = 0; at < x.length; at++) {
    let [left, right] = [(at < 3 ? 0.125 : 0.2 * 5 * 21 * mean) * (x[at] ?? 0), 0];
    W.forEach((row, item) => {
      const weight = weights[own.indexOf(item)] ?? 0;
      left += (1 + 4 * weight) * (row[at] ?? 0) * (times[item] ?? 0);
      right += 5 * weight * (row[at] ?? 0);
    });
    assert.ok(Math.abs(left - right) < 1e-9, `${left} and ${right}`);
  }
});

/** A row of W as the specification has it, whole. */
function wideRow({ V, tags, popularity, scales }: ReturnType<typeof wideModel>, item: number) {
  const row = [...V.values.subarray(3 * item, 3 * item + 3), ...new Float64Array(scales.length)];
  for (const column of tags.columns.subarray(tags.starts[item], tags.starts[item + 1])) {
    row[3 + column] = (popularity[item] ?? 0) * (scales[column] ?? 0);
  }
  return row;
}

test("where the equations have no finite solution nobody is told anything, and nothing fails", () => {
  const V = { values: Float32Array.of(1, 1, 0, 1, 1, 0, 1, 1, 0), rows: 3, columns: 3 };
  const model = wideModel({ ...SOLVING, regularization: 0 }, V, tagsOf([{}, {}, {}]));
  const solved = solution(model, [0]); // 0 / 0
  const parts = partsOf(model, solved, 1);
  assert.deepEqual([...solved.x, ...parts.own], [0, 0, 0, 0]);
});

test("a column counts if enough items have it, and the most frequent ones do", () => {
  const names = (items: Traits[]) => tagsOf(items).names.map(({ name }) => name);
  const of = (label: string, times: number) => Array<Traits>(times).fill({ brand: [label] });
  assert.deepEqual(names([...of("a", 2), ...of("b", 1)]), ["a"]);
  assert.deepEqual(names([...of("a", 3), ...of("b", 2), ...of("c", 146)]), ["c"]); // 4 of 151
  assert.deepEqual(names([...of("a", 20), ...of("b", 19), ...of("c", 2000)]), ["a", "c"]);
  const many = Array.from({ length: 200 }, (_, n) => of(`${n}`, n === 7 ? 20 : 21)).flat();
  const kept = names(many);
  assert.equal(kept.length, 128);
  assert.deepEqual(kept.slice(6, 8), ["6", "8"]);
});

test("a number has bands of about as many items, each named by its least and its largest", () => {
  const years = Array.from({ length: 40 }, (_, n) => ({ year: 1980 + Math.floor(n / 2) }));
  const names = tagsOf(years).names.map(({ name }) => name);
  assert.deepEqual(names.slice(0, 2), ["1980 to 1981", "1982 to 1983"]);
  assert.equal(names.length, 10);
  const prices = [0.5, 0.5, 0.5, 9.25, 9.25].map((price) => ({ price }));
  assert.deepEqual(
    tagsOf(prices).names.map(({ name }) => name),
    ["0.5", "9.25"],
  );
});

test("a list of 10,000 items with 60 tags takes a moment", () => {
  const { tags, best } = speed();
  assert.ok(tags >= 60, `${tags} tags`);
  assert.ok(best < 100, `${best} ms`);
});

test("later items weigh more, those of one moment the same, and the oldest still something", () => {
  near(recency([7, 3, 7]), [8, 5, 8]);
  near(recency([4, 4, 4, 4]), [1, 1, 1, 1]);
  const long = recency(Array.from({ length: 500 }, (_, n) => n));
  assert.ok(long.every((weight, n) => weight > (long[n - 1] ?? 0)));
  near([long[499] ?? 0, long[497] ?? 0, long[0] ?? 0], [10, 5, 20 / 501]);
  assert.equal(recency([]).length, 0);
});
