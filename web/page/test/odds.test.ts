import assert from "node:assert/strict";
import test from "node:test";
import {
  amountText,
  odds,
  oddsSentence,
  powerOfTwoFrom,
  ratioSentence,
  togetherSentence,
} from "../src/odds.js";

const SIGN = { mechanism: "hadamard", epsilon: 2.5, loud: 0, items: 1000 };
const LOUDEST = { mechanism: "loudest", epsilon: 2.5, loud: 5394, items: 9724 };

test("a sign is kept e^epsilon times as often as it is turned", () => {
  const { truth, chance, random } = odds(SIGN);
  assert.ok(Math.abs(truth / (1 - truth) - Math.exp(2.5)) < 1e-9);
  assert.equal(chance, 0.5);
  assert.equal(random, 0);
});

test("a loud direction is e^epsilon times as likely as a quiet one", () => {
  const { truth, chance } = odds(LOUDEST);
  const loud = truth / chance;
  const quiet = (1 - truth) / (1 - chance);
  assert.ok(Math.abs(loud / quiet - Math.exp(2.5)) < 1e-9);
  assert.equal(chance, 5394 / 32768);
});

test("odds are told in hundredths", () => {
  assert.match(oddsSentence(SIGN), /: 92 times in 100 it tells the sign .* the opposite\.$/u);
  assert.match(oddsSentence(LOUDEST), /: 71 times in 100 .* chance would do so 16 times\.$/u);
  assert.match(oddsSentence({ ...SIGN, epsilon: 10 }), /: 99\.9955 times in 100/u);
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

test("powers of two and amounts", () => {
  assert.deepEqual([1, 2, 3, 1000, 1024].map(powerOfTwoFrom), [1, 2, 4, 1024, 1024]);
  assert.equal(amountText(12345.678), "12,345.68");
});
