/**
 * Curves: measured as the Python side does, and laid out on paper.
 */

import assert from "node:assert/strict";
import test from "node:test";
import { buildTags, buildWideModel } from "sottovoce-client";
import vectors from "../../../tests/vectors/panel.json" with { type: "json" };
import { fromFloatHex, manifestWith } from "../../client/test/vectors.js";
import { createDeskCalls } from "../src/desk.js";
import { buildPopularityModel, computeHitRatio, fitsCatalogue, parsePanel } from "../src/panel.js";
import type { Curve } from "../src/state.js";
import { computeLayout } from "../src/view/chart.js";
import { toHex } from "../src/words.js";

for (const vector of vectors) {
  test(`HR@10 is the Python side's: ${vector.kind}`, () => {
    const panel = parsePanel(vector.panel);
    assert.ok(panel !== null && fitsCatalogue(panel, vector.items));
    const values = Float32Array.from(vector.item_matrix, fromFloatHex);
    const V = { values, rows: vector.items, columns: vector.factors };
    const tags = buildTags(vector.tags ?? Array(vector.items).fill({}));
    const quality = computeHitRatio(
      buildWideModel({ ...vector, hasShares: false }, V, tags),
      panel.people,
    );
    assert.ok(Math.abs(quality - vector["hr@10"]) < 1e-12, `${quality}`);
  });
}

const PERSON = { seen: [0], left: 1, others: [2] };
const PANEL = { version: 1, catalogue: "ab", people: [PERSON] };

test("a panel is read, and nothing else", () => {
  assert.deepEqual(parsePanel(PANEL)?.people, [PERSON]);
  assert.ok(parsePanel({ ...PANEL, people: [{ ...PERSON, seen: [] }] }));
  for (const broken of [
    null,
    [],
    { ...PANEL, version: 2 },
    { ...PANEL, catalogue: 3 },
    { ...PANEL, people: [] },
    { ...PANEL, people: [{ ...PERSON, left: -1 }] },
    { ...PANEL, people: [{ ...PERSON, seen: ["0"] }] },
    { ...PANEL, people: [{ ...PERSON, others: [] }] },
    { ...PANEL, people: [{ ...PERSON, others: [0.5] }] },
    { ...PANEL, touched: 3 },
    { ...PANEL, touched: [-1] },
  ]) {
    assert.equal(parsePanel(broken), null);
  }
});

test("counts are in shares of the largest, however many films there are", () => {
  const touched = Array.from({ length: 200_000 }, (_, at) => (at === 7 ? 4 : 1));
  const { V } = buildPopularityModel(touched, buildTags([]));
  assert.deepEqual([...V.values.slice(6, 9)], [0.25, 1, 0.25]);
});

test("what the model knows best is found first, and before it knows anything, what the panel says", () => {
  const desk = createDeskCalls(() => {});
  const items = ["A", "AB", "ABC"].map((title) => ({
    id: title,
    title: `${title} (1994)`,
    tags: {},
  }));
  const searchIds = () => desk.search("1994", 3).map(({ id }) => id);
  desk.setCatalogue("ab", items);
  assert.deepEqual(searchIds(), ["A", "AB", "ABC"]);
  desk.setPanel({ ...PANEL, touched: [1, 5, 3] });
  assert.deepEqual(searchIds(), ["AB", "ABC", "A"]);
  desk.setPopular(["ABC"]);
  assert.deepEqual(searchIds(), ["ABC", "A", "AB"]);
  desk.setCatalogue("cd", items); // of another catalogue the panel says nothing
  desk.setPopular([]);
  assert.deepEqual(searchIds(), ["A", "AB", "ABC"]);
});

test("what many see now comes from the latest model of names, and from no other", async () => {
  const curves: Curve[] = [];
  const desk = createDeskCalls(({ curve }) => curves.push(curve));
  const items = Array.from({ length: 12 }, (_, at) => ({
    id: `${at}`,
    title: `Film ${at} (1994)`,
    tags: {},
  }));
  desk.setCatalogue(toHex(manifestWith({}).catalogue), items);
  desk.setPanel(null);
  const add = async (epoch: number, shares: number[], mechanism: string, reportsBehind = 5) => {
    const terms = { ...manifestWith({}).terms, mechanism, parameters: { names: 14 }, factors: 1 };
    const manifest = manifestWith({ epoch, items: items.length, reportsBehind, terms });
    const values = Float32Array.from(items, (_, row) => shares[row] ?? 0.01);
    desk.addModel(epoch, { manifest, V: { values, rows: items.length, columns: 1 } });
    await new Promise((resolve) => setTimeout(resolve));
    assert.equal(curves.at(-1)?.start, manifest.start?.name);
    return curves.at(-1)?.now.map(({ id }) => id);
  };
  assert.deepEqual(await add(1, [0.5], "named", 0), []);
  assert.deepEqual((await add(2, [0.1, 0.4, 0.2], "named"))?.slice(0, 3), ["1", "2", "0"]);
  assert.equal(curves.at(-1)?.now.length, 10);
  assert.ok(Math.abs((curves.at(-1)?.now[0]?.share ?? 0) - 0.4 / 0.79) < 1e-6);
  // Whatever a server publishes, shares are in 0..1.
  await add(3, [-1e6, 3e5, 1e5], "named");
  const lies = curves.at(-1)?.now.map(({ share }) => share) ?? [];
  assert.ok(Math.abs((lies[0] ?? 0) - 0.75) < 1e-6 && lies.every((share) => share >= 0));
  assert.deepEqual((await add(3, [0.6, 0.4, 0.2], "named"))?.slice(0, 2), ["0", "1"]);
  assert.deepEqual(await add(4, [0.6, 0.4, 0.2], "loudest"), []);
});

const PAPER = { width: 400, height: 200, left: 40, right: 10, top: 20, bottom: 30 };
const values = (...all: number[]) => all.map((value, at) => ({ epoch: at + 1, value }));

test("the value axis begins at 0 and ends above everything", () => {
  const { rows, marks } = computeLayout(values(0.1, 0.62), PAPER, 0.4);
  assert.deepEqual(
    rows.map(({ value }) => Number(value.toFixed(9))),
    [0, 0.2, 0.4, 0.6, 0.8],
  );
  assert.equal(rows[0]?.at, 170);
  assert.equal(rows.at(-1)?.at, 20);
  assert.ok((marks[1]?.y ?? 0) > 20);
});

test("a long history has few epochs on its axis", () => {
  const long = Array.from({ length: 60 }, (_, at) => ({ epoch: 41 + at, value: 3980 }));
  const { columns, rows } = computeLayout(long, PAPER, 4);
  assert.ok(columns.length <= 6);
  assert.equal(columns[0]?.value, 41);
  assert.deepEqual(
    rows.map(({ value }) => value),
    [0, 1000, 2000, 3000, 4000],
  );
});
