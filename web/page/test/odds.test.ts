import assert from "node:assert/strict";
import test from "node:test";
import type { Terms } from "sottovoce-client";
import { explain } from "../../client/src/mechanism/registry.js";
import { manifestWith } from "../../client/test/vectors.js";
import { amountText, atMostText } from "../src/amounts.js";
import { oddsSentence, ratioSentence, surenessText, togetherSentence } from "../src/odds.js";
import { described, stepsOf } from "../src/view/epsilon.js";

/** Only what the steps and the sentences of a lifetime are made from. */
function offered(changes: Partial<Terms>, mixed: number | null = null) {
  const { terms } = manifestWith({ terms: changes });
  const lifetime = terms.epsilon * terms.reports * terms.epochs;
  return { terms, mixed, turns: terms.epochs, lifetime };
}

const SIGN = { mechanism: "coordinate", epsilon: 2.5, loudFraction: 0.5 };
const LOUDEST = { mechanism: "loudest", epsilon: 2.5, loudFraction: 5394 / 32768 };

test("odds are told in hundredths", () => {
  const said = (terms: Partial<Terms>) => oddsSentence(explain(manifestWith({ terms }).terms).odds);
  assert.match(said(SIGN), /: 92 times in 100 it tells the sign .* the opposite\.$/u);
  assert.match(said(LOUDEST), /: 71 times in 100 .* chance would do so 16 times\.$/u);
  assert.match(said({ ...SIGN, epsilon: 10 }), /: 99\.9955 times in 100/u);
  assert.match(said({ ...SIGN, epsilon: 40 }), /: more than 99\.9999 times in 100/u);
});

test("nothing that is not certain happens 100 or 0 times in 100", () => {
  const told = (truth: number) => oddsSentence({ truth, chance: 1 - truth, random: 0.5 });
  assert.match(told(1 - 3e-7), /: more than 99\.9999 times .* so fewer than 0\.0001 times\.$/u);
  assert.match(told(1 - 4.5e-6), /: 99\.99955 times .* so 0\.00045 times\.$/u);
  assert.match(told(0.99), /: 99 times .* so 1 times\.$/u);
  for (let exponent = -16; exponent < -2; exponent += 0.01) {
    assert.doesNotMatch(told(1 - 10 ** exponent), /\b(100 times|so 0 times)/u, `${exponent}`);
  }
});

test("the factor is never rounded down", () => {
  assert.match(ratioSentence(2.5), /factor of 12\.2 at most: .* epsilon 2\.5 means/u);
  assert.match(ratioSentence(1), /factor of 2\.8 at most/u);
  assert.match(ratioSentence(5), /factor of 149 at most/u);
  assert.match(ratioSentence(40), /factor of more than a million/u);
});

test("an epsilon is never rounded down", () => {
  assert.match(ratioSentence(0.004), /that is what epsilon 0\.004 means/u);
  assert.match(ratioSentence(2.504), /that is what epsilon 2\.51 means/u);
  assert.deepEqual([0, 0.1 + 0.2, 0.0041234, 1e-6, 0.4281, 5000, 12345.671].map(atMostText), [
    ...["0", "0.3", "0.0042", "0.000001", "0.43", "5,000", "12,345.68"],
  ]);
  for (let epsilon = 1e-6; epsilon < 1e6; epsilon *= 1.01) {
    const said = Number(atMostText(epsilon).replaceAll(",", ""));
    assert.ok(said >= epsilon * (1 - 1e-14) && said <= epsilon * 1.1 + 0.01, `${epsilon}: ${said}`);
  }
});

test("what reports say together is not hidden", () => {
  const said = (epsilon: number, reports: number, epochs: number) =>
    togetherSentence(offered({ epsilon, reports, epochs })) ?? "";
  assert.equal(said(5, 1, 1), "");
  assert.match(
    said(10, 1, 20),
    /: 1 report in each of 20 epochs\. .* budget of 200\. .* nobody\.$/u,
  );
  assert.match(said(2.5, 100, 2), /: 100 reports in each of 2 epochs\. .* budget of 500\. By/u);
  assert.match(said(0.5, 4, 1), /still report: 4 reports in 1 epoch\. .* budget of 2\.$/u);
  assert.match(said(0.5004, 4, 1), /budget of 2\.01\.$/u);
  const over = { ...offered({ epsilon: 5, reports: 1, epochs: 1 }), turns: 0, lifetime: 15 };
  assert.match(togetherSentence(over) ?? "", /device has reported\. .* budget of 15\./u);
});

test("how sure somebody can be is never rounded down", () => {
  assert.deepEqual([0, 1, 2.5, 5, 10, 40].map(surenessText), [
    ...["50 in 100", "74 in 100", "93 in 100", "99.4 in 100", "99.996 in 100", "certain"],
  ]);
  for (let epsilon = 0; epsilon < 13; epsilon += 0.01) {
    const bound = (100 * Math.exp(epsilon)) / (1 + Math.exp(epsilon));
    const said = Number.parseFloat(surenessText(epsilon));
    assert.ok(said >= bound - 1e-6 && said <= 100 && said < bound + 1, `${epsilon}: ${said}`);
  }
});

test("the picture has one report, an epoch's, all of them, linked and mixed, beside yardsticks", () => {
  const terms = { ...LOUDEST, reports: 4, epochs: 2, leastClients: 300 };
  const steps = stepsOf(offered(terms, 0.4281));
  assert.deepEqual(
    steps.filter(({ name }) => name !== null),
    [
      { epsilon: 0.4281, name: "everything, mixed" },
      { epsilon: 2.5, name: "one report" },
      { epsilon: 10, name: "4 reports of an epoch, linked" },
      { epsilon: 20, name: "everything, linked" },
    ],
  );
  assert.deepEqual(
    steps.map(({ epsilon }) => epsilon),
    [0, 0.4281, 1, 2.5, 3, 10, 20],
  );
  assert.match(
    described(2.5, steps),
    /at most 12\.2 times likelier .* epsilon 0\.43 \(everything, mixed/u,
  );
});

test("the largest step of the picture is never below what a lifetime can cost", () => {
  for (const reports of [1, 4]) {
    for (const epochs of [1, 20]) {
      const offer = offered({ epsilon: 10, reports, epochs });
      const own = stepsOf(offer).filter(({ name }) => name !== null);
      assert.equal(own.at(-1)?.epsilon, offer.lifetime);
      assert.equal(own.length, 1 + Number(reports > 1) + Number(epochs > 1));
    }
  }
});

test("amounts", () => {
  assert.equal(amountText(12345.678), "12,345.68");
});
