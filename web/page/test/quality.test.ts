import assert from "node:assert/strict";
import test from "node:test";
import { tagsOf, wideModel } from "sottovoce-client";
import vectors from "../../../tests/vectors/panel.json" with { type: "json" };
import { fromFloatHex } from "../../client/test/vectors.js";
import { fits, hitRatio, popularityModel, readPanel } from "../src/work/quality.js";

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
