/**
 * What the page says.
 */

import assert from "node:assert/strict";
import test from "node:test";
import type { Terms } from "sottovoce-client";
import { type Amount, type Charge, toAmount } from "../../client/src/ledger.js";
import { computeOdds } from "../../client/src/mechanism/registry.js";
import { createOffer } from "../../client/src/promise.js";
import { manifestWith } from "../../client/test/vectors.js";
import { TERMS } from "../../client/test/world.js";
import { describeYoungModel, type LearningProgress } from "../src/age.js";
import { describeListChange, ListComparison } from "../src/comparison.js";
import { noteSpending, sumEarlierSpending } from "../src/earlier.js";
import { pinKey, replaceKey } from "../src/pinning.js";
import { chooseReasons, explainReason } from "../src/reasons.js";
import { formatReportState } from "../src/reporting.js";
import type { Reason } from "../src/state.js";
import { describeTerms, formatCrowd, listTermNumbers } from "../src/terms.js";
import { toFilm } from "../src/titles.js";
import { listSteps } from "../src/view/epsilon.js";
import { formatBudget, formatLifetime } from "../src/view/leaving.js";
import { explainLimit } from "../src/view/limit.js";
import { formatName } from "../src/view/reports.js";
import { formatStatement } from "../src/view/together.js";
import {
  describeMechanism,
  formatBound,
  formatOdds,
  formatRatio,
  formatStartDetails,
  formatSureness,
} from "../src/words.js";

const offered = (epsilon: number, reports: number, turns = 1000) => ({
  ...{ terms: { epsilon, reports }, turns },
});
const gone = (spent: number): Amount => (spent === 0 ? 0n : toAmount(spent, 1));

test("before the first look of a visit no reports are announced that may never be made", () => {
  const manifest = { epoch: 7, publicKey: new Uint8Array(32) };
  const usual = { manifest, agreed: true, takingPart: true, turnsLeft: 1, lastSync: null };
  const batch = { epoch: 7, state: "dropped", reports: [] } as const;
  const plan = { epoch: 7, takesPart: true, sendAt: 100 };
  for (const [change, sentence] of [
    [{}, /leave within seconds/],
    [{ plan: null }, /^Waiting for the server/],
    [{ plan: { ...plan, takesPart: false } }, /^Waiting for the server/],
    [{ batch, now: 1000 }, /^Waiting for the server/],
    [{ agreed: false }, /Nothing leaves this device\.$/],
    [{ agreed: false, turnsLeft: null }, /No reports are asked for at present\.$/],
  ] as const) {
    const status = { ...usual, batch: null, plan, now: 99, sentAt: null, ...change };
    assert.match(formatReportState(status), sentence);
  }
});

test("limits are counted in epochs, exactly", () => {
  const meaning = (limit: number, spent: number, offer: ReturnType<typeof offered>) =>
    explainLimit(limit, gone(spent), offer);
  assert.match(meaning(500, 0, offered(2.5, 20)), /^Enough for 10 epochs: .* 50\./u);
  assert.match(meaning(500, 450, offered(2.5, 20)), /^Enough for 1 more epoch:/u);
  assert.match(meaning(10, 0, offered(2.5, 20)), /^Not enough for one epoch/u);
  assert.match(meaning(1, 0, offered(0.1, 10)), /^Not enough/u); // 0.1 is more than a tenth
  assert.match(meaning(Number.NaN, 0, offered(0.1, 10)), /number above 0/u);
  assert.match(meaning(500, 0, offered(2.504, 3)), /takes 3 × 2\.504 = 7\.52\./u);
  const budget = (spent: number, limit: number, offer: ReturnType<typeof offered>) =>
    formatBudget({ spentEpsilon: spent, spentAmount: gone(spent), limit }, offer);
  assert.match(budget(7.511, 500, offered(0.1, 10)), /^Spent 7\.52 of your limit of 500:/u);
  assert.match(
    budget(450, 500, offered(2.5, 20)),
    /450 of your limit of 500: enough for 1 more epoch/u,
  );
  assert.match(budget(500, 500, offered(2.5, 20)), /not enough for another epoch/u);
});

test("no limit allows more epochs than the terms do", () => {
  assert.match(explainLimit(500, 0n, offered(2.5, 20, 2)), /^Enough for 2 epochs:/u);
  assert.match(explainLimit(500, 0n, offered(2.5, 20, 0)), /allow no more epochs/u);
  const budget = { spentEpsilon: 50, spentAmount: gone(50), limit: 500 };
  assert.match(formatBudget(budget, offered(2.5, 20, 1)), /enough for 1 more epoch\.$/u);
  assert.equal(formatBudget(budget, offered(2.5, 20, 0)), "Spent 50 of your limit of 500.");
});

test("the statement says what protects and what does not, from the terms and the ledger", () => {
  const terms = { ...TERMS, minClients: 300, reports: 20, epochs: 10 };
  const statement = formatStatement(createOffer(terms, []), 7.511, 0).join(" ");
  assert.match(statement, /^Your history stays here\. (A 50:50 guess|This protects nobody)/u);
  assert.match(statement, /at least 300 devices/u);
  assert.match(statement, /Epsilon, linked: 500, .* whatever happens\./u);
  assert.match(statement, /as its terms asked for \(now 300\)\. Plus a chance of one/u);
  assert.match(statement, /has spent 7\.52\./u);
  assert.doesNotMatch(statement, /public data/u);
  const start = { name: "A <b>table</b>", people: 1600, lastDate: null, licence: "CC0" };
  const withStart = formatStatement(createOffer(terms, []), 7.511, 0, start).join(" ");
  assert.match(withStart, /First lists come from public data: A <b>table<\/b>\./u);
  assert.equal(formatStartDetails(start), "1,600 people. Licence: CC0");
  assert.match(
    formatStartDetails({ ...start, lastDate: "2026-01-31" }),
    /people, until 2026-01-31/u,
  );
  assert.match(statement, /several of one person add up/u);
  const own = { minClients: 1, accounts: false };
  const [open, hidden] = [
    { dummiesOnly: 10, local: 10 },
    { dummiesOnly: 1, local: 10 },
  ];
  assert.match(formatCrowd({ ...own, dummies: 0 }, open), /^No other person for certain/u);
  assert.match(formatCrowd({ ...own, dummies: 1 }, open), /1 report drawn at random\.$/u);
  assert.match(formatCrowd({ ...own, dummies: 4321 }, hidden), /at random, which hide yours/u);
  const asked = { ...terms, reports: 1, epochs: 1, accounts: true };
  const whole = formatStatement(createOffer(asked, []), 0, 0).join(" ");
  assert.match(whole, /in 100 for one account, or .* for one device if/u);
  assert.match(whole, /at least 300 accounts took part/u);
  assert.match(whole, /That is for one account, whose devices share its reports/u);
});

test("after an earlier training the promise counts that one too", () => {
  const { epsilon, loudFraction, minClients: clients, dummies } = TERMS;
  const terms = { ...TERMS, reports: 1, epochs: 2 };
  const charge: Charge = {
    ...{ training: "00".repeat(16), epoch: 1, purpose: "aa".repeat(32) },
    ...{ mechanism: "loudest", epsilon, reports: 1, loudFraction, clients, dummies },
  };
  const charges = [charge, { ...charge, purpose: "bb".repeat(32) }];
  const [before, after] = [createOffer(terms, []), createOffer(terms, charges)];
  assert.deepEqual([before.figures.local, after.figures.local, after.turns], [5, 10, 2]);
  assert.ok(after.figures.central > before.figures.central);
});

test("every term is described, in words or in the table", () => {
  const terms = {
    ...{ ...TERMS, minClients: 321, hold: 7 * 86_400, share: 0.75 },
    ...{ dummies: 9876, epochs: 20, loudFraction: 0.1875 },
  };
  const offer = createOffer(terms, []);
  const words = describeTerms(offer).flat().join("\n");
  const numbers = listTermNumbers(offer).map((row) => row.join(": "));
  for (const part of [
    ...["4 reports in an epoch", "it tells a direction", "at most 20 epochs, ever"],
    ...["about 75 of 100", "at least 321 devices", "9,876 reports drawn at random"],
    ...["waits up to 7 days longer", "Some seconds into a visit"],
  ]) {
    assert.ok(words.includes(part), part);
  }
  for (const part of [
    ...["epsilon of one report: 2.5", "directions that fit a person best: 18.75 in 100 at most"],
    ...[
      "mechanism: loudest",
      "parameters: directions_seed 3, block 64, loud 10",
      "numbers for each film: 3",
    ],
    ...["films: 100 at most", `training, for any other you are asked again: ${terms.training}`],
  ]) {
    assert.ok(numbers.includes(part), part);
  }
  assert.doesNotMatch(words, /epsilon|e\^|seed|[0-9a-f]{32}/u);
  assert.ok(words.split(/\s+/u).length < 200, "a person reads it");
  assert.equal(
    formatLifetime(2, terms),
    "This device took part in 2 of 20 epochs that the terms allow.",
  );
});

const SIGN = { mechanism: "coordinate", epsilon: 2.5, loudFraction: 0.5 };
const LOUDEST = { mechanism: "loudest", epsilon: 2.5, loudFraction: 5394 / 32768 };
const NAMED = { mechanism: "named", epsilon: 10, parameters: { names: 10_760 } };

test("odds are given in hundredths", () => {
  const describeOdds = (terms: Partial<Terms>) =>
    formatOdds(computeOdds(manifestWith({ terms }).terms));
  assert.match(describeOdds(SIGN), /: 92 times in 100 it tells the sign .* the opposite\.$/u);
  assert.match(describeOdds(LOUDEST), /: 71 times in 100 .* chance would in 16 of 100\.$/u);
  assert.match(
    describeOdds(NAMED),
    /: 67 times in 100 it names one of your films; blind chance would in 0\.0093 of 100\. .* 99\.6 of 100 cases, .* in 68\.8\.$/u,
  );
  assert.match(describeOdds({ ...SIGN, epsilon: 10 }), /: 99\.9955 times in 100/u);
  assert.match(describeOdds({ ...SIGN, epsilon: 40 }), /: more than 99\.9999 times in 100/u);
});

test("each kind of report is described", () => {
  for (const [terms, text] of [
    [SIGN, /called coordinate: a report says of one number/u],
    [LOUDEST, /called loudest: a report names one of many public directions/u],
    [NAMED, /called named: a report names one of your films, or one drawn at random/u],
  ] as const) {
    assert.match(describeMechanism(terms.mechanism, computeOdds({ ...TERMS, ...terms })), text);
  }
  assert.equal(formatName(4, "Thing, The (1982)"), "The Thing (1982)");
  assert.equal(formatName(-1, null), "no film");
  assert.equal(formatName(60, null), "a film that may come later");
});

test("nothing that is not certain happens 100 or 0 times in 100", () => {
  const describeTruth = (truth: number) =>
    formatOdds({ content: "direction", truth, chance: 1 - truth, random: 0.5 });
  assert.match(
    describeTruth(1 - 3e-7),
    /: more than 99\.9999 times .* in fewer than 0\.0001 of 100\.$/u,
  );
  assert.match(describeTruth(1 - 4.5e-6), /: 99\.99955 times .* in 0\.00045 of 100\.$/u);
  assert.match(describeTruth(0.99), /: 99 times .* in 1 of 100\.$/u);
  for (let exponent = -16; exponent < -2; exponent += 0.01) {
    assert.doesNotMatch(describeTruth(1 - 10 ** exponent), /\b(100 times|in 0 of)/u, `${exponent}`);
  }
});

test("neither a factor nor an epsilon is ever rounded down", () => {
  assert.deepEqual([1, 2.5, 5, 40].map(formatRatio), ["2.8", "12.2", "149", "more than a million"]);
  assert.deepEqual([0, 0.1 + 0.2, 0.0041234, 1e-6, 0.4281, 5000, 12345.671].map(formatBound), [
    ...["0", "0.3", "0.0042", "0.000001", "0.43", "5,000", "12,345.68"],
  ]);
  for (let epsilon = 1e-6; epsilon < 1e6; epsilon *= 1.01) {
    const value = Number(formatBound(epsilon).replaceAll(",", ""));
    assert.ok(
      value >= epsilon * (1 - 1e-14) && value <= epsilon * 1.1 + 0.01,
      `${epsilon}: ${value}`,
    );
  }
});

test("how sure somebody can be is never rounded down", () => {
  assert.deepEqual([0, 1, 2.5, 5, 10, 40].map(formatSureness), [
    ...["50 in 100", "74 in 100", "93 in 100", "99.4 in 100", "99.996 in 100", "certain"],
  ]);
  for (let epsilon = 0; epsilon < 13; epsilon += 0.01) {
    const bound = (100 * Math.exp(epsilon)) / (1 + Math.exp(epsilon));
    const value = Number.parseFloat(formatSureness(epsilon));
    assert.ok(value >= bound - 1e-6 && value <= 100 && value < bound + 1, `${epsilon}: ${value}`);
  }
});

test("the largest step of the picture is never below what a lifetime can cost", () => {
  for (const reports of [1, 4]) {
    for (const epochs of [1, 20]) {
      const terms = { ...TERMS, epsilon: 10, reports, epochs, minClients: 1, dummies: 0 };
      const own = listSteps(createOffer(terms, [])).filter(({ name }) => name !== null);
      assert.equal(own.at(-1)?.epsilon, 10 * reports * epochs);
      assert.equal(own.length, 1 + Number(reports > 1) + Number(epochs > 1));
    }
  }
});

const formatReason = (reason: Reason) =>
  explainReason(reason)
    .map(({ text }) => text)
    .join("");

test("a reason is a film, many who see it now, or a tag that says what it is", () => {
  assert.equal(formatReason({ kind: "film", name: "The Thing" }), "because of The Thing");
  assert.equal(formatReason({ kind: "now" }), "because many see it now");
  for (const [tag, name, words] of [
    ["genre", "Horror", "because of Horror"],
    ["year", "1979 to 1984", "because of films from 1979 to 1984"],
    ["year", "under 1960", "because of films before 1960"],
    ["year", "2010 or more", "because of films from 2010 on"],
    ["price_eur", "9.5 to 12", "because of price eur: 9.5 to 12"],
  ] as const)
    assert.equal(formatReason({ kind: "tag", tag, name }), words);
});

test("the most telling reason is not the film that supports the whole list", () => {
  const item = (title: string, share: number) => ({
    ...{ kind: "item" as const, id: title, title, share },
  });
  const horror = { kind: "tag" as const, tag: "genre", name: "Horror", band: null, share: 0.3 };
  const reasons = chooseReasons([
    { reasons: [item("Matrix, The (1999)", 0.59), item("Alien (1979)", 0.21)] },
    { reasons: [item("Matrix, The (1999)", 0.46), item("Alien (1979)", 0.22), horror] },
    { reasons: [item("Matrix, The (1999)", 0.33), item("Finding Nemo (2003)", 0.27)] },
    { reasons: [] },
  ]);
  assert.deepEqual(
    reasons.map((reason) => reason?.kind !== "now" && reason?.name),
    ["The Matrix", "Horror", "Finding Nemo", undefined],
  );
});

test("what changed in a list is told of the same films only, after a model has counted the report", () => {
  const shelf = (films: string[], list: string[]) => ({
    films: films.map((id) => toFilm({ id, title: id, tags: {} })),
    advice: list.map((id) => ({ ...toFilm({ id, title: id, tags: {} }), reason: null })),
  });
  const comparison = new ListComparison();
  assert.equal(comparison.compare(1, shelf(["x"], ["a"])), null);
  comparison.begin(1, shelf(["x", "y"], ["a", "b", "c"]));
  assert.equal(comparison.compare(1, shelf(["x", "y"], ["a", "b", "c"])), null);
  const change = comparison.compare(2, shelf(["y", "x"], ["b", "a", "d"]));
  assert.deepEqual(change, { places: 3, newFilms: 1, since: "report" });
  comparison.begin(2, shelf(["x", "y"], ["b", "a", "d"])); // of a second report
  assert.deepEqual(comparison.compare(3, shelf(["x", "y"], ["a", "b", "c"])), {
    ...{ places: 0, newFilms: 0, since: "report" },
  });
  assert.deepEqual(comparison.compare(3, shelf(["x"], ["e"])), {
    ...{ places: 0, newFilms: 0, since: "films" },
  });
  assert.equal(
    describeListChange({ places: 3, newFilms: 1, since: "report" }),
    "Since your first report, all reports together changed 3 places of your list: 1 film is new.",
  );
  comparison.clear();
  assert.equal(comparison.compare(4, shelf(["x"], ["f"])), null);
});

test("a new key is a new demo's only on this machine, and only after another demo", () => {
  const [old, fresh] = ["aa".repeat(32), "bb".repeat(32)];
  const pinAfter = (hostname: string, before: boolean, now: boolean) => {
    const storage = createStorage();
    assert.deepEqual(pinKey(storage, { key: old, isDemo: before }, hostname), {
      ...{ key: old, isNewDemo: false },
    });
    return pinKey(storage, { key: fresh, isDemo: now }, hostname);
  };
  for (const hostname of ["localhost", "127.0.0.1", "[::1]"])
    assert.deepEqual(pinAfter(hostname, true, true), { key: old, isNewDemo: true });
  for (const [hostname, before, now] of [
    ["127.0.0.1", false, true], // a real service through a tunnel, then an attacker
    ["127.0.0.1", true, false],
    ["films.example", true, true],
    ["127.0.0.1.example", true, true],
  ] as const)
    assert.deepEqual(pinAfter(hostname, before, now), { key: old, isNewDemo: false });
  const storage = createStorage();
  pinKey(storage, { key: old, isDemo: true }, "localhost");
  replaceKey(storage, { key: fresh, isDemo: false });
  const next = pinKey(storage, { key: old, isDemo: true }, "localhost");
  assert.deepEqual(next, { key: fresh, isNewDemo: false });
});

function createStorage() {
  const stored = new Map<string, string>();
  return {
    getItem: (name: string) => stored.get(name) ?? null,
    setItem: (name: string, value: string) => void stored.set(name, value),
    removeItem: (name: string) => void stored.delete(name),
  };
}

const saidOfAge = (epoch: number, reportsBehind: number, learnt: LearningProgress | null = null) =>
  describeYoungModel(
    { epoch, items: 900, reportsBehind, start: null, terms: { reports: 20 } },
    learnt,
  );

test("a model says so where nobody, few people or few epochs taught it, or popularity is as good", () => {
  const points = [0.6, 0.4].map((quality, at) => ({ epoch: at + 1, quality, people: null }));
  assert.match(saidOfAge(50, 0) ?? "", /nobody's reports .* tags/u);
  assert.match(saidOfAge(50, 880) ?? "", /young: the reports of 44 people are few for 900 films/u);
  assert.match(saidOfAge(3, 90_000) ?? "", /in 2 epochs so far/u);
  assert.match(saidOfAge(9, 900, { points, popularity: 0.4 }) ?? "", /what is popular/u);
  assert.equal(saidOfAge(4, 900), null);
  assert.equal(saidOfAge(9, 900, { points, popularity: 0.39 }), null);
});

test("what was spent with other servers of this address is stated, and never counted twice", () => {
  const storage = createStorage();
  assert.equal(sumEarlierSpending(storage, "one"), 0);
  noteSpending(storage, "one", 40);
  noteSpending(storage, "one", 50); // left a second time
  noteSpending(storage, "other", 2.5);
  const earlier = sumEarlierSpending(storage, "third");
  assert.deepEqual([earlier, sumEarlierSpending(storage, "one")], [52.5, 2.5]);
  const offer = createOffer(manifestWith({ terms: SIGN }).terms, []);
  assert.match(
    formatStatement(offer, 1, earlier).join(" "),
    /has spent 52\.5 more: no other figure/u,
  );
  assert.doesNotMatch(formatStatement(offer, 1, 0).join(" "), /earlier/u);
});
