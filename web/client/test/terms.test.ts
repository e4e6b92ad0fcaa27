/**
 * What a device decides before it reads its history: terms that are worse, coins, counts of epochs.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { checkTerms, epochsOf, turnsLeft } from "../src/agreement.js";
import { decodeCatalogue } from "../src/catalogue.js";
import type { Entropy } from "../src/coin.js";
import { fromHex, toHex } from "../src/encoding.js";
import { ProtocolError, TermsError } from "../src/errors.js";
import type { Charge } from "../src/ledger.js";
import { decodeManifest, openManifest } from "../src/manifest.js";
import { decodeItems } from "../src/model.js";
import { brokenBy, RULES, readTerms, type Terms, writtenTerms } from "../src/terms.js";
import { chance, drawnPlan, isTime, lead } from "../src/timing.js";
import { manifestWith, plans, protocol } from "./vectors.js";
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

const pinned = readTerms(plans.accepted);
const { opens, closes, epochs_left: epochsLeft, items, hold } = plans.manifest;

test("the same terms are worse", () => {
  for (const { asked, worse } of plans.comparisons) {
    const terms = readTerms(asked);
    const found = Object.entries(RULES)
      .filter(([, rule]) => rule.isWorse(pinned, terms))
      .map(([field]) => Object.keys(writtenTerms(terms))[Object.keys(terms).indexOf(field)]);
    assert.deepEqual(found.sort(), [...worse].sort());
  }
});

/** Bytes that are these words, one after the other, then zeros. */
function entropyOf(words: readonly string[]): Entropy {
  const drawn = words.map((word) => fromHex(word).reverse());
  return (size) => drawn.shift() ?? new Uint8Array(size);
}

test("the same words give the same plans", () => {
  // Without jitter the Python client sends at once; this one never does.
  for (const { share, now, jitter, words, ...expected } of plans.coins.filter(
    (each) => each.jitter,
  )) {
    const terms = { ...pinned, share, hold };
    const manifest = manifestWith({ opens, closes, epochsLeft, items, terms });
    const plan = drawnPlan(manifest, terms.epochs, now, jitter, entropyOf(words));
    assert.equal(plan.takesPart, expected.takes_part);
    assert.equal(plan.sendAt, expected.send_at);
    assert.equal(isTime(manifest, now), expected.in_time);
  }
});

test("the same turns and epochs that are left give the same chance, to the last bit", () => {
  for (const { share, epochs, charged, epochs_left, tosses, ...expected } of plans.chances) {
    const manifest = manifestWith({
      epochsLeft: epochs_left,
      terms: { ...pinned, share, epochs },
    });
    const turns = turnsLeft(manifest.terms, charges(charged));
    assert.equal(chance(manifest, turns), expected.chance);
    for (const [word, takesPart] of tosses) {
      const plan = drawnPlan(manifest, turns, opens, 3600, entropyOf([String(word)]));
      assert.equal(plan.takesPart, takesPart);
    }
  }
});

test("leads are the same", () => {
  for (const { items, factors, reports, ...expected } of plans.leads) {
    const manifest = manifestWith({ items, terms: { ...pinned, factors, reports } });
    assert.equal(lead(manifest), expected.lead);
  }
});

/** What the pinned training was charged, so often. */
function charges(length: number): Charge[] {
  return Array.from({ length }, (_, epoch) => ({
    ...{ training: pinned.training, epoch, purpose: `${epoch}`.padStart(64, "0") },
    ...{ mechanism: "loudest", epsilon: 1, reports: 1, loudFraction: 0.1, clients: 9 },
  }));
}

test("the turns that are left are counted alike", () => {
  for (const { epochs, charged, left } of plans.turns) {
    assert.equal(turnsLeft({ ...pinned, epochs }, charges(charged)), left);
  }
});

test("everything that must be taken is taken", async () => {
  const { accepted: taken } = protocol;
  for (const { label, bytes } of taken.manifest) {
    assert.ok(decodeManifest(fromHex(bytes)), label);
  }
  for (const { label, bytes } of taken.catalogue) {
    assert.equal(decodeCatalogue(fromHex(bytes)).items.length, 1, label);
  }
  for (const { label, bytes } of taken.model) {
    assert.equal(decodeItems(fromHex(bytes), 5, 2).rows, 5, label);
  }
  for (const { label, bytes, trusted, then } of taken.signed_manifest) {
    const opened = await openManifest(fromHex(bytes), fromHex(trusted));
    assert.equal(toHex(opened.key), then, label);
  }
});
