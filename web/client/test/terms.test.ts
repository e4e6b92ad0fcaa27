import assert from "node:assert/strict";
import { test } from "node:test";
import { checkTerms, epochsOf, turnsLeft } from "../src/agreement.js";
import { ProtocolError, TermsError } from "../src/errors.js";
import { brokenBy, RULES, readTerms, type Terms, writtenTerms } from "../src/terms.js";
import { protocol } from "./vectors.js";
import { TERMS } from "./world.js";

/** What is worse in each field, and how that is said. */
const WORSE: Readonly<Record<Exclude<keyof Terms, "parameters">, readonly [unknown, string]>> = {
  training: ["00".repeat(16), "reports would go to another training"],
  mechanism: ["coordinate", "reports would be made by coordinate, not by loudest"],
  epsilon: [5, "the budget of one report would rise from epsilon 2.5 to 5"],
  loudFraction: [0.5, "the share of loud directions would rise from 0.1 to 0.5"],
  reports: [5, "an epoch would take 5 reports, not 4"],
  epochs: [1001, "a lifetime would have 1001 epochs, not 1000"],
  share: [1, "the part of the epochs with this device would rise from 0.5 to 1"],
  leastClients: [
    99,
    "a report would be hidden among at least 99 people, not 100 (fewer hide less, and more than ten times as many may never come together)",
  ],
  hold: [61, "an epoch would wait for its crowd for 61 seconds, not 60"],
  factors: [4, "the model would have 4 factors, not 3"],
  mostItems: [101, "the model could have 101 items, not 100"],
};
const accepted: Terms = { ...TERMS, share: 0.5, hold: 60 };

test("every field has a rule, and what is worse is said in words", () => {
  assert.deepEqual(Object.keys(RULES).sort(), [...Object.keys(WORSE), "parameters"].sort());
  assert.deepEqual(Object.keys(RULES).sort(), Object.keys(TERMS).sort());
  for (const [field, [value, sentence]] of Object.entries(WORSE)) {
    assert.deepEqual(brokenBy(accepted, { ...accepted, [field]: value }), [sentence], field);
  }
});

test("one field that is worse is refused whatever else got better", () => {
  const better: Partial<Terms> = {
    ...{ epsilon: 0.1, loudFraction: 0.01, reports: 1, epochs: 1, share: 0.1 },
    ...{ leastClients: 1000, hold: 0, factors: 1, mostItems: 50 },
  };
  assert.deepEqual(brokenBy(accepted, { ...accepted, ...better }), []);
  for (const [field, [value]] of Object.entries(WORSE)) {
    const asked = { ...accepted, ...better, [field]: value };
    assert.equal(brokenBy(accepted, asked).length, 1, field);
    assert.throws(() => checkTerms(accepted, asked), TermsError);
  }
});

test("a crowd may grow tenfold, and no further", () => {
  const crowd = (leastClients: number) => brokenBy(accepted, { ...accepted, leastClients }).length;
  assert.deepEqual([99, 100, 1000, 1001, 1e7].map(crowd), [1, 0, 0, 1, 1]);
});

test("free parameters may change, under the loud fraction that was accepted", () => {
  const asked = { ...accepted, parameters: { directions_seed: 99, block: 64, loud: 12 } };
  assert.deepEqual(brokenBy(accepted, asked), []);
});

test("the size of blocks is pinned, and told in words", () => {
  const asked = { ...accepted, parameters: { loud: 12, directions_seed: 99, block: 32 } };
  assert.deepEqual(brokenBy(accepted, asked), [
    "the mechanism's parameters would be block 32, directions_seed 99, loud 12, " +
      "not block 64, directions_seed 3, loud 10",
  ]);
});

test("an error has what is worse, and the very terms that were asked for", () => {
  const asked = { ...accepted, epsilon: 2.5000000000000004 };
  assert.throws(
    () => checkTerms(accepted, asked),
    (error) => {
      assert.ok(error instanceof TermsError);
      assert.deepEqual([error.worse.length, error.asked], [1, asked]);
      assert.match(error.message, /Nothing is sent/);
      return true;
    },
  );
  checkTerms(null, asked); // nothing was accepted yet: nothing is broken
});

test("terms are read strictly, and written as they were", () => {
  const { terms } = protocol.manifest.fields;
  assert.deepEqual(writtenTerms(readTerms(terms)), terms);
  for (const name of Object.keys(terms)) {
    const { [name as keyof typeof terms]: _, ...rest } = terms;
    assert.throws(() => readTerms(rest), ProtocolError, name);
    for (const value of [null, "x", -1, [], true, 1e300]) {
      assert.throws(
        () => readTerms({ ...terms, [name]: value }),
        ProtocolError,
        `${name} ${value}`,
      );
    }
  }
  assert.throws(() => readTerms({ ...terms, more: 1 }), ProtocolError);
});

const charge = (epoch: number, training = TERMS.training) => ({
  ...{ training, epoch, purpose: "", mechanism: "loudest", epsilon: 1, reports: 1 },
  ...{ loudFraction: 0.1, clients: 9 },
});

test("the epochs of a lifetime are counted by the device, for each training", () => {
  const two = { ...TERMS, epochs: 2 };
  const other = charge(3, "00".repeat(16));
  assert.equal(epochsOf(two, [charge(1), charge(2), other]), 2);
  assert.equal(turnsLeft(two, [charge(1), other]), 1);
  assert.equal(turnsLeft(two, [charge(1), charge(2), charge(4), other]), 0);
});
