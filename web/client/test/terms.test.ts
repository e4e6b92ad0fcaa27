import assert from "node:assert/strict";
import { test } from "node:test";
import { UntrustedError } from "../src/errors.js";
import { agreed, brokenBy, type Terms, termsOf } from "../src/terms.js";
import { manifestWith } from "./vectors.js";

const pinned: Terms = { mechanism: "loudest", epsilon: 2.5, reports: 4, leastClients: 100 };

test("terms are those of the manifest", () => {
  const wanted = { mechanism: "loudest", epsilon: 2.5, reports: 4, leastClients: 50 };
  assert.deepEqual(termsOf(manifestWith({})), wanted);
});

test("everything that is worse is said in words", () => {
  const worse: [Partial<Terms>, string][] = [
    [{ mechanism: "coordinate" }, "reports would be made by coordinate, not by loudest"],
    [{ epsilon: 5 }, "the budget of one report would rise from epsilon 2.5 to 5"],
    [{ reports: 5 }, "an epoch would take 5 reports, not 4"],
    [{ leastClients: 99 }, "a report would be hidden among at least 99 people, not 100"],
  ];
  for (const [change, sentence] of worse) {
    assert.deepEqual(brokenBy(pinned, { ...pinned, ...change }), [sentence]);
  }
  const all = { mechanism: "coordinate", epsilon: 5, reports: 5, leastClients: 99 };
  assert.deepEqual(
    brokenBy(pinned, all),
    worse.map(([, sentence]) => sentence),
  );
});

test("the first terms are taken, better ones leave the bound where it was", () => {
  assert.deepEqual(agreed(null, pinned, false), pinned);
  const better = { ...pinned, epsilon: 1, reports: 1, leastClients: 1_000 };
  assert.deepEqual(brokenBy(pinned, better), []);
  assert.equal(agreed(pinned, better, false), pinned);
  assert.equal(agreed(pinned, better, true), pinned);
});

test("worse terms need the owner's consent", () => {
  const asked = { ...pinned, epsilon: 2.5000000000000004 };
  assert.throws(() => agreed(pinned, asked, false), UntrustedError);
  assert.throws(() => agreed(pinned, asked, false), /Nothing is sent/);
  assert.equal(agreed(pinned, asked, true), asked);
});
