/** Tags, weights and the wide model: the other implementation's numbers, and parts that add up. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Catalogue, catalogueOf } from "../src/catalogue.js";
import { recency } from "../src/recency.js";
import { personalOf, recommendations, scoresOf } from "../src/recommending.js";
import { type Release, takenIn } from "../src/release.js";
import type { SignedManifest } from "../src/signed.js";
import { type Traits, tagsOf } from "../src/tags.js";
import type { Matrix } from "../src/user.js";
import { partsOf, scoreOf, solution, wideModel } from "../src/wide.js";
import { speed } from "./speed.js";
import { manifestWith, recommending, seeded } from "./vectors.js";

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
function releaseOf(V: Matrix, catalogue: Catalogue, reportsBehind: number): Release {
  const manifest = manifestWith({ ...SOLVING, reportsBehind });
  const signed = { manifest, raw: new Uint8Array(), hash: new Uint8Array() };
  return takenIn({ ...signed, key: new Uint8Array() } as SignedManifest, V, catalogue);
}

for (const question of recommending) {
  test(`lists and reasons are the other implementation's: ${question.name}`, () => {
    const { answer } = question;
    const catalogue = catalogueOf(question.items as { id: string; title: string; tags: Traits }[]);
    const behind = "reports_behind" in question ? question.reports_behind : 1000;
    const release = releaseOf(matrixOf(question.V), catalogue, behind);
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
