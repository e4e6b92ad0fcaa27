/** What a device decides before it reads its history, and what it takes: as in every other client. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { turnsLeft } from "../src/agreement.js";
import type { Charge } from "../src/amount.js";
import { fromHex, toHex } from "../src/bytes.js";
import { decodeCatalogue } from "../src/catalogue.js";
import { decodeManifest } from "../src/manifest.js";
import { decodeItems } from "../src/model.js";
import { openManifest } from "../src/signed.js";
import { RULES, readTerms, writtenTerms } from "../src/terms.js";
import { chance, drawnPlan, isTime, lead } from "../src/timing.js";
import type { Entropy } from "../src/words.js";
import { manifestWith, plans, protocol } from "./vectors.js";

const accepted = readTerms(plans.accepted);
const { opens, closes, epochs_left: epochsLeft, items, hold } = plans.manifest;

test("the same terms are worse", () => {
  for (const { asked, worse } of plans.comparisons) {
    const terms = readTerms(asked);
    const found = Object.entries(RULES)
      .filter(([, rule]) => rule.isWorse(accepted, terms))
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
    const terms = { ...accepted, share, hold };
    const manifest = manifestWith({ opens, closes, epochsLeft, items, terms });
    const plan = drawnPlan(manifest, terms.epochs, now, jitter, entropyOf(words));
    assert.equal(plan.takesPart, expected.takes_part);
    assert.equal(plan.sendAt, expected.send_at);
    assert.equal(isTime(manifest, now), expected.in_time);
  }
});

/** What the accepted training was charged, so often. */
function charges(length: number): Charge[] {
  return Array.from({ length }, (_, epoch) => ({
    ...{ training: accepted.training, epoch, purpose: `${epoch}`.padStart(64, "0") },
    ...{ mechanism: "loudest", epsilon: 1, reports: 1, loudFraction: 0.1, clients: 9 },
  }));
}

test("the same turns and epochs that are left give the same chance, to the last bit", () => {
  for (const { share, epochs, charged, epochs_left, tosses, ...expected } of plans.chances) {
    const manifest = manifestWith({
      epochsLeft: epochs_left,
      terms: { ...accepted, share, epochs },
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
    const manifest = manifestWith({ items, terms: { ...accepted, factors, reports } });
    assert.equal(lead(manifest), expected.lead);
  }
});

test("the turns that are left are counted alike", () => {
  for (const { epochs, charged, left } of plans.turns) {
    assert.equal(turnsLeft({ ...accepted, epochs }, charges(charged)), left);
  }
});

test("everything that must be taken is taken", async () => {
  const { accepted } = protocol;
  for (const { label, bytes } of accepted.manifest) {
    assert.ok(decodeManifest(fromHex(bytes)), label);
  }
  for (const { label, bytes } of accepted.catalogue) {
    assert.equal(decodeCatalogue(fromHex(bytes)).items.length, 1, label);
  }
  for (const { label, bytes } of accepted.model) {
    assert.equal(decodeItems(fromHex(bytes), 5, 2).length, 10, label);
  }
  for (const { label, bytes, trusted, then } of accepted.signed_manifest) {
    const opened = await openManifest(fromHex(bytes), fromHex(trusted));
    assert.equal(toHex(opened.key), then, label);
  }
});
