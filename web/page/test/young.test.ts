import assert from "node:assert/strict";
import test from "node:test";
import { type Learnt, youngText } from "../src/young.js";

const said = (epoch: number, reportsBehind: number, learnt: Learnt | null = null) =>
  youngText({ epoch, items: 900, reportsBehind, terms: { reports: 20 } }, learnt);

test("a model that nobody or too few have taught says so", () => {
  assert.match(said(1, 0) ?? "", /^This model is young: nobody's reports .* tags alone/u);
  assert.match(said(50, 0) ?? "", /nobody's reports/u);
  assert.match(said(50, 880) ?? "", /young: the reports of 44 people are few for 900 films/u);
});

test("a model of few epochs says so, a grown one says nothing", () => {
  assert.match(said(2, 900) ?? "", /young: people have taught it in 1 epoch so far/u);
  assert.match(said(3, 90_000) ?? "", /in 2 epochs so far/u);
  assert.equal(said(4, 900), null);
});

test("a model that is no better than popularity says so, where both are measured", () => {
  const points = [0.6, 0.4].map((quality, at) => ({ epoch: at + 1, quality, people: null }));
  assert.match(said(9, 900, { points, popularity: 0.4 }) ?? "", /no better .* what is popular/u);
  assert.equal(said(9, 900, { points, popularity: 0.39 }), null);
  assert.equal(said(9, 900, { points, popularity: null }), null);
  assert.equal(said(9, 900, { points: [], popularity: 0.4 }), null);
});
