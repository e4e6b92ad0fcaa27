/**
 * The texts: the same numbers in every language, never less than what holds, and nothing left out.
 */

import assert from "node:assert/strict";
import test from "node:test";
import {
  computeSummary,
  type Offer,
  type Recommendation,
  summarize,
  type Terms,
} from "sottovoce-client";
import { createOffer } from "../../client/src/promise.js";
import { listWorse, TERMS_RULES } from "../../client/src/terms.js";
import { TERMS } from "../../client/test/world.js";
import {
  chooseTexts,
  formatNumber,
  formatReason,
  formatStart,
  listChanges,
  listRows,
} from "../src/texts.js";

const [IN_ENGLISH, IN_GERMAN] = [chooseTexts("en-GB"), chooseTexts("de_AT")];
const [ENGLISH, GERMAN] = [IN_ENGLISH.texts, IN_GERMAN.texts];

/** Return the numbers of a text, as a computer writes them. */
function parseNumbers(text: string, lang: string): number[] {
  const matches = text.match(/\d[\d.,]*/g) ?? [];
  return matches.map((match) => {
    const plain = match.replace(/[.,]$/, "");
    const one = lang === "de" ? plain.replaceAll(".", "").replace(",", ".") : plain;
    return Number(one.replaceAll(",", ""));
  });
}

const NAMED = {
  mechanism: "named",
  parameters: { names: 10_760 },
  loudFraction: 1 / 10_760,
  epsilon: 10,
  reports: 1,
};

/** Strong, weak and spent, with and without dummies and a crowd, of all kinds of reports. */
const OFFERS: [Offer, number][] = [
  [{}, 100],
  [{ epsilon: 0.001, reports: 1, minClients: 1 }, 0.001],
  [{ epsilon: 0.125, reports: 1234, epochs: 3, minClients: 100_000 }, 1e6],
  [{ epsilon: 0.5, reports: 20, epochs: 2, minClients: 1, dummies: 500_000 }, 1e6],
  [{ epsilon: 0.5, reports: 12, epochs: 1, minClients: 100_000 }, 1e6],
  [{ epsilon: 0.5, reports: 14, epochs: 1, minClients: 1, trial: true }, 1e6],
  [{ epsilon: 4, reports: 500, epochs: 100 }, 1e6],
  [{ epsilon: 0.5, reports: 12, epochs: 2, minClients: 100_000, accounts: true }, 1e6],
  [{ epsilon: 0.5, reports: 12, epochs: 2, minClients: 100_000, accounts: true }, 6],
  [{ epsilon: 0.5, reports: 12, epochs: 1, minClients: 1, dummies: 0, accounts: true }, 1e6],
  [{}, 0],
  ...[0, 1, 4].map((epochs): [Partial<Terms>, number] => [{ ...NAMED, epochs }, 1e6]),
].map(([changes, limit]) => [
  createOffer({ ...TERMS, ...(changes as Partial<Terms>) }, []),
  limit as number,
]);

test("both languages state the same numbers", () => {
  const guesses = new Set<string>();
  for (const [offer, limit] of OFFERS) {
    const short = computeSummary(offer.terms, [], limit);
    guesses.add(
      JSON.stringify([
        short.guess === null,
        short.guess?.linkedChance == null,
        short.guess?.byFakes,
      ]),
    );
    const [english, german] = [ENGLISH.formatSummary(short), GERMAN.formatSummary(short)];
    assert.deepEqual(english, summarize(offer.terms, [], limit));
    assert.equal(german.length, offer.terms.trial ? 4 : 3);
    english.forEach((one, at) => {
      const other = german[at] ?? "";
      assert.deepEqual(parseNumbers(one, "en"), parseNumbers(other, "de"), `${one} / ${other}`);
      assert.equal(one.includes("always"), other.includes("immer"));
      assert.equal(one.includes("for one account"), other.includes("für ein Konto"));
      assert.equal(one.includes("for one device"), other.includes("für ein Gerät"));
    });
    const rows = [listRows(offer, limit, ENGLISH, "en"), listRows(offer, limit, GERMAN, "de")];
    assert.deepEqual(
      rows[0]?.map(([, value]) => parseNumbers(value, "en")),
      rows[1]?.map(([, value]) => parseNumbers(value, "de")),
    );
  }
  assert.ok(guesses.size >= 3, [...guesses].join(" "));
});

test("behind the details is every field of the terms", () => {
  const fields = Object.keys(TERMS_RULES);
  for (const { rows } of [ENGLISH, GERMAN]) {
    assert.deepEqual(
      fields.filter((field) => !(field in rows)),
      [],
    );
  }
});

test("everything that is worse is named among the changes", () => {
  const changes: Partial<Terms>[] = [
    { training: "ab".repeat(16) },
    { epsilon: TERMS.epsilon * 2, dummies: 7 },
    { reports: TERMS.reports + 1, minClients: TERMS.minClients - 1 },
    { parameters: { block: 3 } },
    { epochs: TERMS.epochs + 1, share: TERMS.share / 2, hold: TERMS.hold + 1 },
    { loudFraction: TERMS.loudFraction * (1 + 1e-9) },
  ];
  for (const change of changes) {
    const asked = { ...TERMS, ...change };
    const named = listChanges(TERMS, asked, GERMAN, "de");
    assert.equal(named.length, Object.keys(change).length, named.join());
    assert.ok(named.length >= listWorse(TERMS, asked).length);
  }
  assert.deepEqual(listChanges(TERMS, { ...TERMS }, ENGLISH, "en"), []);
});

test("a number is never less than it is", () => {
  assert.equal(formatNumber(1234.51, "en"), "1,235");
  assert.equal(formatNumber(0.12341, "de"), "0,1235");
  assert.equal(formatNumber(1e-6, "en"), "0.000001");
  assert.equal(formatNumber(123_456_789, "de"), "123.456.789");
  assert.equal(formatNumber(0, "en"), "0");
});

test("the public data that first lists come from has its name, people, date and licence", () => {
  const start = { name: "A {1} table", people: 1600, lastDate: "2026-01-31", licence: "CC0" };
  assert.deepEqual(formatStart(start, ENGLISH, "en"), [
    "First lists come from public data: A {1} table",
    "1,600 people, until 2026-01-31. Licence: CC0",
  ]);
  const details = formatStart({ ...start, lastDate: null }, GERMAN, "de")[1];
  assert.equal(details, "1.600 Personen, bis –. Lizenz: CC0");
});

test("reasons are joined as a language does it", () => {
  const reasons: Recommendation["reasons"] = [
    { kind: "item", id: "1", title: "Green tea", share: 0.5 },
    { kind: "tag", tag: "kind", name: "tea", band: null, share: 0.3 },
    createBand("year", 1979, 1984),
  ];
  const one = { id: "2", title: "Black tea", tags: {}, score: 1, reasons };
  assert.equal(formatReason(one, IN_ENGLISH), "Because of Green tea, tea, and year 1979–1984");
  assert.equal(formatReason(one, IN_GERMAN), "Wegen Green tea, tea und year 1979–1984");
  const popular = {
    ...one,
    reasons: [...one.reasons.slice(0, 1), { kind: "now", share: 0.5 } as const],
  };
  assert.equal(
    formatReason(popular, IN_ENGLISH),
    "Because of Green tea and the many who look at it now",
  );
  assert.equal(
    formatReason(popular, IN_GERMAN),
    "Wegen Green tea und der vielen, die es jetzt ansehen",
  );
  assert.equal(formatReason({ ...one, reasons: [] }, IN_GERMAN), null);
});

test("bands of numbers have the words, the currency and the language of the shop", () => {
  const numbers = {
    price: { name: "Preis", style: "currency", currency: "EUR" },
    year: { name: "Jahrgang" },
  } as const;
  const words = chooseTexts("de", undefined, numbers);
  const format = (...reasons: Recommendation["reasons"]) =>
    formatReason({ reasons }, words)?.replaceAll("\u00a0", " ");
  const wine = { kind: "tag", tag: "kind", name: "Wein", band: null, share: 0.1 } as const;
  assert.equal(format(createBand("price", 12.1, 14.6), wine), "Wegen Preis 12,10–14,60 € und Wein");
  assert.equal(format(createBand("price", null, 5)), "Wegen Preis unter 5,00 €");
  assert.equal(format(createBand("price", 1200, null)), "Wegen Preis ab 1200,00 €");
  assert.equal(format(createBand("year", 1987, 1987)), "Wegen Jahrgang 1987");
});

function createBand(tag: string, low: number | null, high: number | null) {
  return { kind: "tag", tag, name: "", band: { low, high }, share: 0.2 } as const;
}

test("a page's own texts lie over those of the language", () => {
  const { texts } = chooseTexts("de", { accept: "Ja" });
  assert.deepEqual([texts.accept, texts.refuse], ["Ja", "Jetzt nicht"]);
  // Numbers and lists stand as in the texts, and no name of a language can break them.
  const langs = ["de-CH", "fr", "", "!", "x".repeat(99)].map((lang) => chooseTexts(lang).lang);
  assert.deepEqual(langs, ["de", "en", "en", "en", "en"]);
  assert.equal(chooseTexts("fr-BE", { accept: "Oui" }).lang, "fr");
  assert.equal(chooseTexts("x".repeat(99), { accept: "Yes" }).lang, "en");
});
