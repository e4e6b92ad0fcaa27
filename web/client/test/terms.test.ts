/**
 * What a device decides before it reads its history: terms that are worse, coins, counts of epochs.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { countTurnsLeft } from "../src/agreement.js";
import { encodeUtf8, fromHex, toHex } from "../src/bytes.js";
import { decodeCatalogue } from "../src/catalogue.js";
import type { Entropy } from "../src/coin.js";
import type { Terms } from "../src/epoch.js";
import { ProtocolError } from "../src/errors.js";
import type { Charge } from "../src/ledger.js";
import { decodeManifest, openManifest } from "../src/manifest.js";
import { decodeItems } from "../src/model.js";
import { listWorse, parseTermsBlock, TERMS_RULES, toFields } from "../src/terms.js";
import { canStillSend, computeLead, computeParticipationChance, drawPlan } from "../src/timing.js";
import { manifestWith, plans, protocol } from "./vectors.js";
import { TERMS } from "./world.js";

const accepted: Terms = { ...TERMS, share: 0.5, hold: 60 };

test("free parameters may change, under the loud fraction that was accepted", () => {
  const asked = { ...accepted, parameters: { directions_seed: 99, block: 64, loud: 12 } };
  assert.deepEqual(listWorse(accepted, asked), []);
});

test("the size of blocks is pinned, and told in words", () => {
  const asked = { ...accepted, parameters: { loud: 12, directions_seed: 99, block: 32 } };
  assert.deepEqual(listWorse(accepted, asked), [
    "the mechanism's parameters would be block 32, directions_seed 99, loud 12, " +
      "not block 64, directions_seed 3, loud 10",
  ]);
});

test("terms are read strictly, and written as they were", () => {
  const { terms } = protocol.manifest.fields;
  assert.deepEqual(toFields(parseTermsBlock(terms)), terms);
  for (const name of Object.keys(terms)) {
    const { [name as keyof typeof terms]: _, ...rest } = terms;
    assert.throws(() => parseTermsBlock(rest), ProtocolError, name);
    for (const value of [
      null,
      "x",
      -1,
      [],
      typeof terms[name as keyof typeof terms] === "boolean" ? 1 : true,
      1e300,
    ]) {
      assert.throws(
        () => parseTermsBlock({ ...terms, [name]: value }),
        ProtocolError,
        `${name} ${value}`,
      );
    }
  }
  assert.throws(() => parseTermsBlock({ ...terms, more: 1 }), ProtocolError);
});

test("the number of names is even, more than the items, and at most twice the items that there may be", () => {
  const { fields } = protocol.manifest;
  const decode = (names: unknown, loud_fraction = 0.5) => {
    const own = { mechanism: "named", parameters: { names }, loud_fraction, dummies: 0 };
    const text = JSON.stringify({ ...fields, terms: { ...fields.terms, ...own } });
    return decodeManifest(encodeUtf8(text));
  };
  const least = fields.items + 1 + ((fields.items + 1) % 2);
  for (const names of [least, 2 ** 25]) {
    assert.deepEqual(decode(names, 1 / names).terms.parameters, { names });
    assert.throws(() => decode(names, 0.99 / names), /more directions are loud/);
  }
  for (const names of [0, least - 2, least + 1, 2 ** 25 + 2, 1.5, null]) {
    assert.throws(() => decode(names), ProtocolError, `${names}`);
  }
});

test("the number of names is pinned", () => {
  const named = { ...accepted, mechanism: "named", parameters: { names: 60 } };
  assert.deepEqual(listWorse(named, { ...named, parameters: { names: 62 } }), [
    "the mechanism's parameters would be names 62, not names 60",
  ]);
});

const pinned = parseTermsBlock(plans.accepted);
const { opens, closes, epochs_left: epochsLeft, items, hold } = plans.manifest;

test("the same terms are worse", () => {
  for (const { asked, worse } of plans.comparisons) {
    const terms = parseTermsBlock(asked);
    const fields = Object.entries(TERMS_RULES)
      .filter(([, rule]) => rule.isWorse(pinned, terms))
      .map(([field]) => Object.keys(toFields(terms))[Object.keys(terms).indexOf(field)]);
    assert.deepEqual(fields.sort(), [...worse].sort());
  }
});

/** Return an entropy of these words, one after the other, then zeros. */
function entropyOf(words: readonly string[]): Entropy {
  const drawn = words.map((word) => fromHex(word).reverse());
  return (size) => drawn.shift() ?? new Uint8Array(size);
}

test("the same words give the same plans", () => {
  // Without jitter the Python client sends at once; this one never does.
  const withJitter = plans.coins.filter(({ jitter }) => jitter);
  for (const { share, now, jitter, words, ...expected } of withJitter) {
    const terms = { ...pinned, share, hold };
    const manifest = manifestWith({ opens, closes, epochsLeft, items, terms });
    const plan = drawPlan(manifest, terms.epochs, now, jitter, entropyOf(words));
    assert.equal(plan.takesPart, expected.takes_part);
    assert.equal(plan.sendAt, expected.send_at);
    assert.equal(canStillSend(manifest, now), expected.in_time);
  }
});

test("the same turns and epochs that are left give the same chance, to the last bit", () => {
  for (const { share, epochs, charged, epochs_left, tosses, ...expected } of plans.chances) {
    const manifest = manifestWith({
      epochsLeft: epochs_left,
      terms: { ...pinned, share, epochs },
    });
    const turns = countTurnsLeft(manifest.terms, makeCharges(charged));
    assert.equal(computeParticipationChance(manifest, turns), expected.chance);
    for (const [word, takesPart] of tosses) {
      const plan = drawPlan(manifest, turns, opens, 3600, entropyOf([String(word)]));
      assert.equal(plan.takesPart, takesPart);
    }
  }
});

test("leads are the same", () => {
  for (const { items, factors, reports, ...expected } of plans.leads) {
    const manifest = manifestWith({ items, terms: { ...pinned, factors, reports } });
    assert.equal(computeLead(manifest), expected.lead);
  }
});

/** Return charges of the pinned training, one for each epoch. */
function makeCharges(length: number): Charge[] {
  return Array.from({ length }, (_, epoch) => ({
    ...{ training: pinned.training, epoch, purpose: `${epoch}`.padStart(64, "0") },
    ...{ mechanism: "loudest", epsilon: 1, reports: 1, loudFraction: 0.1, clients: 9, dummies: 0 },
  }));
}

test("the turns that are left are counted alike", () => {
  for (const { epochs, charged, left } of plans.turns) {
    assert.equal(countTurnsLeft({ ...pinned, epochs }, makeCharges(charged)), left);
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
