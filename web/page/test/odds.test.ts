import assert from "node:assert/strict";
import test from "node:test";
import { explain, type Terms } from "sottovoce-client";
import { manifestWith } from "../../client/test/vectors.js";
import { amountText, oddsSentence, ratioSentence, togetherSentence } from "../src/odds.js";

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

test("amounts", () => {
  assert.equal(amountText(12345.678), "12,345.68");
});
