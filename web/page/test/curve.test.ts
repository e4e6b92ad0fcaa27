import assert from "node:assert/strict";
import test from "node:test";
import { layout, roundStep } from "../src/curve.js";

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

test("steps are round", () => {
  assert.deepEqual([0.1, 0.155, 1, 3, 7, 1000].map(roundStep), [0.1, 0.2, 1, 5, 10, 1000]);
});
