import assert from "node:assert/strict";
import test from "node:test";
import { explain, type Terms } from "sottovoce-client";
import { manifestWith } from "../../client/test/vectors.js";
import {
  amountText,
  oddsSentence,
  ratioSentence,
  surenessText,
  togetherSentence,
} from "../src/odds.js";
import { described, stepsOf } from "../src/view/epsilon.js";

const SIGN = { mechanism: "coordinate", epsilon: 2.5, loudFraction: 0.5 };
const LOUDEST = { mechanism: "loudest", epsilon: 2.5, loudFraction: 5394 / 32768 };

test("odds are told in hundredths", () => {
  const said = (terms: Partial<Terms>) => oddsSentence(explain(manifestWith({ terms }).terms).odds);
  assert.match(said(SIGN), /: 92 times in 100 it tells the sign .* the opposite\.$/u);
  assert.match(said(LOUDEST), /: 71 times in 100 .* chance would do so 16 times\.$/u);
  assert.match(said({ ...SIGN, epsilon: 10 }), /: 99\.9955 times in 100/u);
});

test("the factor is never rounded down", () => {
  assert.match(ratioSentence(2.5), /factor of 12\.2 at most: .* epsilon 2\.5 means/u);
  assert.match(ratioSentence(1), /factor of 2\.8 at most/u);
  assert.match(ratioSentence(5), /factor of 149 at most/u);
  assert.match(ratioSentence(40), /factor of more than a million/u);
});

test("what reports say together is not hidden", () => {
  assert.equal(togetherSentence(5, 1), null);
  assert.match(togetherSentence(2.5, 100) ?? "", /budget of 250\. By itself that protects nobody/u);
  assert.match(togetherSentence(0.5, 4) ?? "", /budget of 2\.$/u);
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

test("the picture has one report, those of an epoch, and all of them mixed, beside yardsticks", () => {
  const { terms } = manifestWith({
    terms: { ...LOUDEST, reports: 4, epochs: 2, leastClients: 300 },
  });
  const steps = stepsOf({ terms, mixed: 0.4281 });
  assert.deepEqual(
    steps.filter(({ name }) => name !== null),
    [
      { epsilon: 0.4281, name: "2 epochs, mixed among 300" },
      { epsilon: 2.5, name: "one report" },
      { epsilon: 10, name: "4 reports of an epoch, linked" },
    ],
  );
  assert.deepEqual(
    steps.map(({ epsilon }) => epsilon),
    [0, 0.4281, 1, 2.5, 3, 10],
  );
  assert.match(described(2.5, steps), /at most 12\.2 times likelier .* epsilon 0\.43 \(2 epochs/u);
  const alone = stepsOf({ terms: { ...terms, reports: 1 }, mixed: null });
  assert.equal(alone.filter(({ name }) => name !== null).length, 1);
});

test("amounts", () => {
  assert.equal(amountText(12345.678), "12,345.68");
});
