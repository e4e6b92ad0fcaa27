/**
 * Curves: measured as the Python side does, and laid out on paper.
 */

import assert from "node:assert/strict";
import test from "node:test";
import { tagsOf, wideModel } from "sottovoce-client";
import vectors from "../../../tests/vectors/panel.json" with { type: "json" };
import { fromFloatHex } from "../../client/test/vectors.js";
import { fits, hitRatio, popularityModel, readPanel } from "../src/desk.js";
import { layout, newestAt } from "../src/view/pictures.js";

for (const vector of vectors) {
  test(`HR@10 is the Python side's: ${vector.kind}`, () => {
    const panel = readPanel(vector.panel);
    assert.ok(panel !== null && fits(panel, vector.items));
    const values = Float32Array.from(vector.item_matrix, fromFloatHex);
    const V = { values, rows: vector.items, columns: vector.factors };
    const tags = tagsOf(vector.tags ?? Array(vector.items).fill({}));
    const quality = hitRatio(wideModel({ ...vector, reportsBehind: 1 }, V, tags), panel.people);
    assert.ok(Math.abs(quality - vector["hr@10"]) < 1e-12, `${quality}`);
  });
}

const PERSON = { seen: [0], left: 1, others: [2] };
const PANEL = { version: 1, catalogue: "ab", people: [PERSON] };

test("a panel is read, and nothing else", () => {
  assert.deepEqual(readPanel(PANEL)?.people, [PERSON]);
  assert.ok(readPanel({ ...PANEL, people: [{ ...PERSON, seen: [] }] }));
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
    assert.equal(readPanel(broken), null);
  }
});

test("a panel of another catalogue does not fit", () => {
  assert.ok(fits(PANEL, 3));
  assert.ok(!fits(PANEL, 2));
});

test("counts are in shares of the largest, however many films there are", () => {
  const touched = Array.from({ length: 200_000 }, (_, at) => (at === 7 ? 4 : 1));
  const { V } = popularityModel(touched, tagsOf([]));
  assert.deepEqual([...V.values.slice(6, 9)], [0.25, 1, 0.25]);
});

const PAPER = { width: 400, height: 200, left: 40, right: 10, top: 20, bottom: 30 };
const values = (...all: number[]) => all.map((value, at) => ({ epoch: at + 1, value }));

test("the first epoch is at the left edge, the last at the right one", () => {
  const { marks, line } = layout(values(0.1, 0.2, 0.3, 0.4, 0.5, 0.6), PAPER, 0.4);
  assert.equal(marks[0]?.x, 40);
  assert.equal(marks.at(-1)?.x, 390);
  assert.match(line, /^M40 \S+(L\S+ \S+){5}$/u);
});

test("the value axis begins at 0 and ends above everything", () => {
  const { rows, marks } = layout(values(0.1, 0.62), PAPER, 0.4);
  assert.deepEqual(
    rows.map(({ value }) => Number(value.toFixed(9))),
    [0, 0.2, 0.4, 0.6, 0.8],
  );
  assert.equal(rows[0]?.at, 170);
  assert.equal(rows.at(-1)?.at, 20);
  assert.ok((marks[1]?.y ?? 0) > 20);
});

test("a curve that has just begun leaves room", () => {
  const { marks, columns } = layout(values(0.1), PAPER, 0.4);
  assert.equal(marks[0]?.x, 40);
  assert.deepEqual(
    columns.map(({ value }) => value),
    [1, 2, 3, 4, 5],
  );
});

test("a long history has few epochs on its axis", () => {
  const long = Array.from({ length: 60 }, (_, at) => ({ epoch: 41 + at, value: 3980 }));
  const { columns, rows } = layout(long, PAPER, 4);
  assert.ok(columns.length <= 6);
  assert.equal(columns[0]?.value, 41);
  assert.deepEqual(
    rows.map(({ value }) => value),
    [0, 1000, 2000, 3000, 4000],
  );
});

test("the newest value stands clear of the line, on the paper", () => {
  const curves = [
    ...[[0.1], [0.4], [0.1, 0.4], [0.4, 0.1], [0.3, 0.1, 0.3, 0.1], [0.1, 0.38, 0.4, 0.39]],
    ...[[...Array(30).fill(0.4), 0.1], Array.from({ length: 60 }, (_, at) => (at % 2) * 0.4)],
  ];
  for (const curve of curves) {
    const places = layout(values(...curve), PAPER, 0.4);
    for (const text of ["9%", "40%", "100%", "12,345"]) {
      const { x, y } = newestAt(places, text, PAPER);
      const [from, to] = [x - 12 * text.length, x];
      assert.ok(from >= 0 && to <= PAPER.width && y >= PAPER.top - 9, `${curve} ${text}`);
      for (let at = 0; at <= 1; at += 0.01) {
        const below = heightAt(places.marks, from + (to - from) * at);
        assert.ok(below === null || y <= below - 8.9, `${curve} ${text} ${y} ${below}`);
      }
    }
  }
});

function heightAt(marks: readonly { x: number; y: number }[], x: number): number | null {
  const next = marks.findIndex((mark) => mark.x >= x);
  const [a, b] = [marks[next - 1], marks[next]];
  if (a === undefined || b === undefined) return null;
  return a.y + ((b.y - a.y) * (x - a.x)) / (b.x - a.x);
}
