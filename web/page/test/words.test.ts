import assert from "node:assert/strict";
import test from "node:test";
import { RefusedError, StoreError, UnavailableError, UntrustedError } from "sottovoce-client";
import { checkTerms } from "../../client/src/agreement.js";
import { type Amount, amount, type Charge } from "../../client/src/amount.js";
import { offerOf } from "../../client/src/offer.js";
import { TERMS } from "../../client/test/world.js";
import {
  countdownText,
  durationText,
  type Standing,
  sentencesOf,
  stateLine,
} from "../src/sentences.js";
import { crowdSentence, termsInWords, whenSentence } from "../src/terms.js";
import { budgetText, lifetimeText } from "../src/view/budget.js";
import { meaningText } from "../src/view/limit.js";
import { sealedAt, sizeText } from "../src/view/reports.js";
import { placeAfter } from "../src/view/search.js";
import { closing, statementOf, trend } from "../src/view/together.js";
import { sentence, troubleOf } from "../src/work/trouble.js";

const told = Array.from({ length: 50 }, () => ({
  ...{ index: 1, bit: 1 as const, row: 0, column: 1, coin: "kept" as const },
}));
const MANIFEST = { epoch: 4, publicKey: new Uint8Array(32) };
const STANDING: Standing = {
  ...{ manifest: MANIFEST, agreed: true, takingPart: true },
  ...{ batch: null, synced: null, sentAt: null, plan: null, now: 1000 },
};
const line = (changes: Partial<Standing>) => stateLine({ ...STANDING, ...changes });

test("the state line says what became of this epoch's reports", () => {
  const batch = { epoch: 4, state: "sent" as const, told };
  assert.match(line({ agreed: false }), /Nothing leaves this device/u);
  assert.match(line({ takingPart: false }), /^Paused\./u);
  assert.match(line({ manifest: null }), /first word/u);
  assert.match(
    line({ batch: { ...batch, state: "charged" } }),
    /your 50 reports .* wait to be sent/u,
  );
  assert.equal(line({ batch }), "Epoch 4: your 50 reports left.");
  assert.match(line({ batch, sentAt: { epoch: 4, time: 0 } }), /^Epoch 4: .* left at .*\d\d/u);
  assert.equal(line({ batch, sentAt: { epoch: 3, time: 0 } }), "Epoch 4: your 50 reports left.");
  assert.match(line({ batch, takingPart: false }), /left\. Paused: nothing more leaves/u);
});

test("the state line repeats the client's sentence for this epoch only", () => {
  const synced = { epoch: 4, outcome: "limit reached" as const, sentence: "The limit." };
  assert.equal(line({ synced }), "The limit.");
  assert.match(line({ synced: { ...synced, epoch: 3 } }), /being made/u);
  assert.match(line({ manifest: { ...MANIFEST, publicKey: null } }), /No reports are asked for/u);
  assert.match(line({ batch: { epoch: 3, state: "sent", told } }), /Epoch 4: .* being made/u);
});

test("the state line names the moment that was drawn, while it lies ahead", () => {
  const plan = { epoch: 4, takesPart: true, sendAt: 1001 };
  assert.match(line({ plan }), /^Epoch 4: your reports leave at .*nothing is spent/u);
  assert.match(line({ plan: { ...plan, sendAt: 999 } }), /being made/u);
  assert.match(line({ plan: { ...plan, epoch: 3 } }), /being made/u);
  const synced = { epoch: 4, outcome: "sitting out" as const, sentence: "It sits out." };
  assert.equal(line({ plan, synced }), "It sits out.");
});

const offered = (epsilon: number, reports: number, turns = 1000) => ({
  ...{ terms: { epsilon, reports }, turns },
});
const gone = (spent: number): Amount => (spent === 0 ? 0n : amount(spent, 1));

test("limits are counted in epochs, exactly", () => {
  const meaning = (limit: number, spent: number, offer: ReturnType<typeof offered>) =>
    meaningText(limit, gone(spent), offer);
  assert.match(meaning(500, 0, offered(2.5, 20)), /^Enough for 10 epochs: .* 50\./u);
  assert.match(meaning(500, 450, offered(2.5, 20)), /^Enough for 1 more epoch:/u);
  assert.match(meaning(10, 0, offered(2.5, 20)), /^Not enough for one epoch/u);
  assert.match(meaning(1, 0, offered(0.1, 10)), /^Not enough/u); // 0.1 is more than a tenth
  assert.match(meaning(Number.NaN, 0, offered(0.1, 10)), /number above 0/u);
  assert.match(meaning(500, 0, offered(2.504, 3)), /each takes 3 × 2\.504 = 7\.52\./u);
  const budget = (spent: number, limit: number, offer: ReturnType<typeof offered>) =>
    budgetText({ spent, gone: gone(spent), limit }, offer);
  assert.match(budget(7.511, 500, offered(0.1, 10)), /^Spent 7\.52 of 500:/u);
  assert.match(budget(450, 500, offered(2.5, 20)), /450 of 500: enough for 1 more epoch/u);
  assert.match(budget(500, 500, offered(2.5, 20)), /not enough for another epoch/u);
});

test("no limit allows more epochs than the terms do", () => {
  assert.match(meaningText(500, 0n, offered(2.5, 20, 2)), /^Enough for 2 epochs:/u);
  assert.match(meaningText(500, 0n, offered(2.5, 20, 0)), /allow no more epochs/u);
  const budget = { spent: 50, gone: gone(50), limit: 500 };
  assert.match(budgetText(budget, offered(2.5, 20, 1)), /enough for 1 more epoch\.$/u);
  assert.equal(budgetText(budget, offered(2.5, 20, 0)), "Spent 50 of 500.");
});

test("each error is told by what it means", () => {
  const kinds = [
    new UntrustedError("x"),
    new UnavailableError("x"),
    new RefusedError("x"),
    new StoreError("x"),
    new TypeError("x"),
  ].map((error) => troubleOf(error).kind);
  assert.deepEqual(kinds, ["untrusted", "unavailable", "refused", "storage", "storage"]);
  const { text } = troubleOf(new UntrustedError("the signature does not fit"));
  assert.match(text, /^The signature does not fit\. Nothing was sent\. Recommendations go on/u);
  assert.doesNotMatch(
    troubleOf(new UntrustedError("a; nothing is sent")).text,
    /Nothing was sent/u,
  );
  const away = new UnavailableError("http://a/b: the proxy cannot be reached (x); try again later");
  assert.match(troubleOf(away).text, /^The proxy cannot be reached\. Recommendations go on/u);
  assert.equal(sentence("http://a/b: the proxy answered 404"), "The proxy answered 404.");
});

test("a change of terms is listed, with what would be accepted", () => {
  const worse = { ...TERMS, epsilon: 5, leastClients: 10 };
  assert.throws(
    () => checkTerms(TERMS, worse),
    (error) => {
      const trouble = troubleOf(error);
      assert.equal(trouble.kind, "terms");
      assert.equal(trouble.terms?.worse.length, 2);
      assert.deepEqual(trouble.terms?.asked, worse);
      assert.match(trouble.terms?.worse[0] ?? "", /^The budget of one report .* 2\.5 to 5\.$/u);
      return true;
    },
  );
});

test("time, sentences, curves", () => {
  assert.deepEqual([-3, 0.2, 42, 65, 3900].map(countdownText), [
    "0:00",
    "0:01",
    "0:42",
    "1:05",
    "1:05:00",
  ]);
  assert.deepEqual(sentencesOf("One is e^19.1 (1e-06). Two! And three"), [
    "One is e^19.1 (1e-06).",
    "Two!",
    "And three",
  ]);
  const window = { publicKey: new Uint8Array(32), opens: 10, closes: 70, terms: { hold: 30 } };
  assert.deepEqual(closing(window, 5), { name: "Opens in", value: "0:05" });
  assert.deepEqual(closing(window, 28), { name: "Closes in", value: "0:42" });
  assert.deepEqual(closing(window, 70), { name: "Waits for", value: "its crowd" });
  assert.deepEqual(closing(window, 100), { name: "Closed", value: "over" });
  assert.equal(closing({ ...window, publicKey: null }, 28).value, "none");
  assert.deepEqual([0, 1, 59, 60, 90, 7200, 604_800].map(durationText), [
    ...["0 seconds", "1 second", "59 seconds", "1 minute", "90 seconds", "2 hours", "7 days"],
  ]);
  const values = [
    { epoch: 1, value: 0.1 },
    { epoch: 3, value: 0.5 },
  ];
  assert.equal(trend(values, String), "From 0.1 in epoch 1 to 0.5 in epoch 3.");
  assert.equal(trend(values.slice(0, 1), String), "0.1 in epoch 1.");
});

test("the statement says what protects and what does not, from the terms and the ledger", () => {
  const terms = { ...TERMS, leastClients: 300, reports: 20, epochs: 10 };
  const statement = statementOf(offerOf(terms, []), 0, 3600).join(" ");
  assert.match(statement, /at least 300 devices/u);
  assert.match(
    statement,
    /20 reports in each of 10 epochs\. .* budget of 500\. By itself that protects nobody/u,
  );
  assert.match(
    statement,
    /has spent 0; with all that these terms may still cost it is 500 at most/u,
  );
  assert.match(statement, /as many honest devices .* ask for \(now 300\): .* e\^\d/u);
  assert.match(statement, /several devices of a person say adds up/u);
  assert.match(crowdSentence(1), /^Nobody for certain/u);
});

test("after an earlier training the statement counts that one too", () => {
  const { epsilon, loudFraction, leastClients: clients } = TERMS;
  const terms = { ...TERMS, reports: 1, epochs: 2 };
  const charge: Charge = {
    ...{ training: "00".repeat(16), epoch: 1, purpose: "aa".repeat(32) },
    ...{ mechanism: "loudest", epsilon, reports: 1, loudFraction, clients },
  };
  const charges = [charge, { ...charge, purpose: "bb".repeat(32) }];
  const [before, after] = [offerOf(terms, []), offerOf(terms, charges)];
  assert.deepEqual([before.lifetime, after.lifetime, after.turns], [5, 10, 2]);
  assert.ok((after.mixed ?? 10) > (before.mixed ?? 5));
  const said = statementOf(after, 5, 3600).join(" ");
  assert.match(said, /1 report in each of 2 epochs\. Together these have a budget of 10\./u);
  assert.match(said, /is at most e\^10 times as likely/u);
  assert.match(said, /has spent 5; with all that these terms may still cost it is 10 at most/u);
});

test("every term is told in words", () => {
  const terms = {
    ...{ ...TERMS, leastClients: 321, hold: 7 * 86_400, share: 0.75 },
    ...{ epochs: 20, loudFraction: 0.1875 },
  };
  const said = termsInWords(offerOf(terms, []), 3600)
    .map(({ name, words }) => `${name} ${words}`)
    .join("\n");
  for (const part of [
    ...["4 reports in an epoch", "epsilon 2.5", "By loudest: a report names", "18.75 in 100"],
    ...["directions_seed 3, block 64, loud 10", "3 numbers for each film", "at most 100 films"],
    ...[terms.training, "at most 20 epochs of this training, ever"],
    ...["about 75 of 100 epochs", "at least 321 devices"],
    ...["waits up to 7 days longer", "within 1 hour", "Whatever happens"],
  ]) {
    assert.ok(said.includes(part), part);
  }
  assert.match(whenSentence(0), /^This demo sends at once\./u);
  assert.equal(
    lifetimeText(2, terms),
    "This device took part in 2 of 20 epochs that the terms allow.",
  );
});

test("a batch is shown by its bytes", () => {
  const bytes = Uint8Array.from({ length: 56 + 104 }, (_, at) => at);
  assert.deepEqual([sealedAt(bytes, 1)[0], sealedAt(bytes, 1).length], [108, 52]);
  const batch = {
    epoch: 4,
    told: told.slice(0, 2),
    bytes,
    mechanism: "loudest",
    epsilon: 2.5,
    hash: "",
  };
  assert.match(
    sizeText({ ...batch, state: "sent" }),
    /^Epoch 4: 160 bytes, .* 2 × 52 .* has left\.$/u,
  );
  assert.match(sizeText({ ...batch, state: "dropped" }), /not counted/u);
});

test("keys lead through the list and around it", () => {
  assert.equal(placeAfter("ArrowDown", -1, 3), 0);
  assert.equal(placeAfter("ArrowDown", 2, 3), 0);
  assert.equal(placeAfter("ArrowUp", -1, 3), 2);
  assert.equal(placeAfter("ArrowUp", 1, 3), 0);
  assert.equal(placeAfter("Home", 2, 3), 0);
  assert.equal(placeAfter("End", 0, 3), 2);
  assert.equal(placeAfter("a", 0, 3), null);
});
