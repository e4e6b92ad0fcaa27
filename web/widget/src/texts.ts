/**
 * The texts of the elements, in English and German.
 *
 * Texts contain no figures. Figures are passed to them, and only `formatNumber` formats these. So
 * all languages state the same figures.
 */

import {
  type Band,
  formatSummary,
  type Offer,
  type PromiseSummary,
  type Provenance,
  type Recommendation,
  type Terms,
} from "sottovoce-client";

/** All texts; a page may replace some. */
export interface Texts {
  /** Title of the first question. */
  ask: string;
  /** Title of the question about changed terms. */
  askAgain: string;
  /** Notice above a question that replaces another one. */
  questionChanged: string;
  /**
   * Returns the sentences of the consent: in a trial, that it is one; then what leaves, how much it
   * can reveal, and how to stop.
   */
  formatSummary: (summary: PromiseSummary) => readonly string[];
  /** Sentence about the epsilon, `{0}`, that was spent with other services of this site. */
  others: string;
  details: string;
  /** Explanation of epsilon. */
  meaning: string;
  /** Explanation of epsilon if the terms need accounts. */
  meaningOfAccount: string;
  accept: string;
  /** Label of the yes button for changed terms. */
  agree: string;
  refuse: string;
  /** Text above the list of changed terms. */
  changedTerms: string;
  /** One changed term: `{0}` is the new value, `{1}` the accepted one. */
  changedRow: string;
  /** Texts of the states, by the names in `DisplayState`. */
  notParticipating: string;
  takesPart: string;
  noToken: string;
  paused: string;
  termsChanged: string;
  allSpent: string;
  /** Labels of the buttons. */
  takePart: string;
  look: string;
  pause: string;
  goOn: string;
  forget: string;
  cancel: string;
  /** Question before everything is forgotten. */
  forgetting: string;
  /** Names of the elements for screen readers. */
  choices: string;
  list: string;
  similar: string;
  /** `{0}` is the reason for an item. */
  reason: string;
  /** Text for the reason `now`, which is filled into `reason`: many people touch the item now. */
  now: string;
  /** `{0}` is the name of the public data that first lists come from. */
  start: string;
  /** About this data: `{0}` people, `{1}` its last date, `{2}` its licence. */
  startDetails: string;
  /** Bands of numbers without a lower edge and without an upper one; `{0}` is the other edge. */
  under: string;
  orMore: string;
  /** Names of the rows under "Details". */
  rows: Readonly<Record<RowName, string>>;
}

type RowName =
  | keyof Terms
  | ("limit" | "local" | "dummiesOnly" | "central" | "delta")
  | ("truth" | "chance");

const ENGLISH: Texts = {
  ask: "Help to improve recommendations?",
  askAgain: "Agree to changed terms?",
  questionChanged: "The question has just changed. Please read it again.",
  formatSummary,
  others:
    "With other services of this site, this browser has spent {0} of epsilon more: no other figure here counts that, and it adds up.",
  details: "Details",
  meaning:
    "Any conclusion is at most exp(epsilon) times as likely as with another history. That is for one device: several of one person add up.",
  meaningOfAccount:
    "Any conclusion is at most exp(epsilon) times as likely as with another history. That is for one account, whose devices share its reports of this training, if the proxy counts honestly; otherwise for one device. Several of one person add up.",
  accept: "Take part",
  agree: "Agree",
  refuse: "Not now",
  changedTerms:
    "The server asks for other terms than before. No report is made unless you agree. New:",
  changedRow: "{0}, before {1}",
  notParticipating: "You do not take part: nothing leaves this device.",
  takesPart: "You take part. Only blurred reports leave this device.",
  noToken: "You take part. This device has no token yet: no report is made.",
  paused: "Paused: nothing leaves this device.",
  termsChanged: "The terms have changed: no report is made on this device.",
  allSpent: "All that you agreed to is spent: no more reports are made on this device.",
  takePart: "Take part …",
  look: "Changed terms …",
  pause: "Pause",
  goOn: "Go on",
  forget: "Forget",
  cancel: "Cancel",
  forgetting:
    "Delete your history, the recommendations and your consent on this device? No report is made until you agree again. The record of what was spent and tokens stay. What has left cannot be undone.",
  choices: "Your choices about recommendations",
  list: "Recommended for you",
  similar: "Similar",
  reason: "Because of {0}",
  now: "the many who look at it now",
  start: "First lists come from public data: {0}",
  startDetails: "{0} people, until {1}. Licence: {2}",
  under: "under {0}",
  orMore: "{0} or more",
  rows: {
    limit: "Limit of this device, in epsilon",
    local: "Epsilon of all reports, whatever happens",
    dummiesOnly: "Epsilon if the proxy is honest, even if all other devices are fake",
    central: "Epsilon if the proxy and as many other devices as are asked for are honest",
    delta: "Chance that is added to the last two (delta)",
    epsilon: "Epsilon of one report",
    truth: "How often, in 100 times, a report fits the person, at most",
    chance: "How often it would by chance alone",
    reports: "Reports in an epoch, a round of learning",
    epochs: "Epochs, at most",
    share: "Part of the epochs in which this device reports",
    minClients: "Devices whose reports are mixed, at least",
    dummies: "Random reports that the proxy adds",
    hold: "Seconds that an epoch waits for these devices",
    loudFraction: "Part of the directions that fit a person best, at most",
    mechanism: "How reports are made",
    parameters: "Its parameters",
    factors: "Numbers for each item",
    maxItems: "Items, at most",
    training: "Name of the training",
    accounts: "Each device needs an account",
    trial: "A trial, with invented people",
  },
};

const GERMAN: Texts = {
  ask: "Bei besseren Empfehlungen mithelfen?",
  askAgain: "Geänderten Bedingungen zustimmen?",
  questionChanged: "Die Frage hat sich gerade geändert. Bitte noch einmal lesen.",
  formatSummary: ({ trial, reports, names, guess }) => [
    ...(trial
      ? [
          "Dies ist ein Versuch: Die meisten darin sind erfunden, unter ihnen ist niemand verborgen.",
        ]
      : []),
    `Was hier angesehen wird, bleibt auf diesem Gerät; ${formatLeaving(reports, names)}.`,
    guess === null
      ? "Das schützt niemanden: Aus dem, was hinausgeht, lässt sich womöglich errechnen, was angesehen wurde."
      : `Eine 50:50-Vermutung darüber stimmt danach in höchstens ${useDecimalComma(guess.chance)} von 100 Fällen${formatLinked(guess)}.`,
    "Aufhören geht jederzeit; was hinausgegangen ist, lässt sich nicht zurückholen.",
  ],
  others:
    "Mit anderen Diensten dieser Seite hat dieser Browser {0} an Epsilon mehr verbraucht: Keine andere Zahl hier zählt das mit, und es kommt hinzu.",
  details: "Einzelheiten",
  meaning:
    "Jeder Schluss ist höchstens exp(Epsilon)-mal so wahrscheinlich wie bei einem anderen Verlauf. Das gilt für ein Gerät: Mehrere einer Person summieren sich.",
  meaningOfAccount:
    "Jeder Schluss ist höchstens exp(Epsilon)-mal so wahrscheinlich wie bei einem anderen Verlauf. Das gilt für ein Konto, dessen Geräte sich seine Berichte dieses Trainings teilen, wenn der Proxy ehrlich zählt; sonst für ein Gerät. Mehrere einer Person summieren sich.",
  accept: "Mitmachen",
  agree: "Zustimmen",
  refuse: "Jetzt nicht",
  changedTerms:
    "Der Server verlangt andere Bedingungen als bisher. Ohne Zustimmung entsteht kein Bericht. Neu:",
  changedRow: "{0}, bisher {1}",
  notParticipating: "Keine Teilnahme: Von diesem Gerät geht nichts hinaus.",
  takesPart: "Teilnahme läuft. Nur verrauschte Berichte verlassen dieses Gerät.",
  noToken: "Teilnahme läuft. Dieses Gerät hat noch kein Token: Kein Bericht entsteht.",
  paused: "Pausiert: Von diesem Gerät geht nichts hinaus.",
  termsChanged: "Die Bedingungen haben sich geändert: Auf diesem Gerät entsteht kein Bericht.",
  allSpent: "Alles Vereinbarte ist verbraucht: Auf diesem Gerät entstehen keine Berichte mehr.",
  takePart: "Mitmachen …",
  look: "Geänderte Bedingungen …",
  pause: "Pausieren",
  goOn: "Fortsetzen",
  forget: "Vergessen",
  cancel: "Abbrechen",
  forgetting:
    "Verlauf, Empfehlungen und Zustimmung auf diesem Gerät löschen? Ohne neue Zustimmung entsteht kein Bericht. Die Aufzeichnung des Verbrauchs und Tokens bleiben. Was hinausgegangen ist, lässt sich nicht zurückholen.",
  choices: "Einstellungen zu Empfehlungen",
  list: "Empfehlungen",
  similar: "Ähnliches",
  reason: "Wegen {0}",
  now: "der vielen, die es jetzt ansehen",
  start: "Erste Listen stammen aus öffentlichen Daten: {0}",
  startDetails: "{0} Personen, bis {1}. Lizenz: {2}",
  under: "unter {0}",
  orMore: "ab {0}",
  rows: {
    limit: "Obergrenze dieses Geräts, in Epsilon",
    local: "Epsilon aller Berichte, was auch geschieht",
    dummiesOnly:
      "Epsilon, wenn der Proxy ehrlich ist, selbst wenn alle anderen Geräte gefälscht sind",
    central: "Epsilon, wenn der Proxy und so viele andere Geräte wie verlangt ehrlich sind",
    delta: "Wahrscheinlichkeit, die zu den letzten beiden hinzukommt (Delta)",
    epsilon: "Epsilon eines Berichts",
    truth: "Wie oft von 100 Malen ein Bericht zur Person passt, höchstens",
    chance: "Wie oft er es rein zufällig täte",
    reports: "Berichte je Epoche, einer Runde des Lernens",
    epochs: "Epochen, höchstens",
    share: "Anteil der Epochen, in denen dieses Gerät berichtet",
    minClients: "Geräte, deren Berichte gemischt werden, mindestens",
    dummies: "Zufällige Berichte, die der Proxy hinzufügt",
    hold: "Sekunden, die eine Epoche auf diese Geräte wartet",
    loudFraction: "Anteil der Richtungen, die am besten zu einer Person passen, höchstens",
    mechanism: "Wie Berichte entstehen",
    parameters: "Dessen Parameter",
    factors: "Zahlen je Artikel",
    maxItems: "Artikel, höchstens",
    training: "Name des Trainings",
    accounts: "Jedes Gerät braucht ein Konto",
    trial: "Ein Versuch, mit erfundenen Personen",
  },
};

function formatLeaving(reports: number, names: number | null): string {
  if (reports === 0) return "es gehen keine weiteren Berichte hinaus";
  const isOne = reports === 1;
  const some = names
    ? `Bericht${isOne ? "" : "e"} (das zuletzt Angesehene oder zufällig eins von ${formatNumber(names, "de")})`
    : `durch Zufall verrauschte${isOne ? "r Bericht" : " Berichte"}`;
  return `höchstens ${formatNumber(reports, "de")} ${some} geh${isOne ? "t" : "en"} über einen Proxy an einen Server`;
}

function formatLinked({
  linkedChance,
  byFakes,
  unit,
}: NonNullable<PromiseSummary["guess"]>): string {
  const isAccount = unit === "account";
  const whose = unit ? ` für ein ${isAccount ? "Konto" : "Gerät"}` : "";
  if (linkedChance === null) return whose;
  const device = isAccount ? " für ein Gerät" : "";
  const often = linkedChance === "always" ? "immer" : `in ${useDecimalComma(linkedChance)}`;
  const cause = byFakes
    ? "andere Geräte gefälscht sind oder der Proxy betrügt"
    : "der Proxy betrügt";
  return `${whose}, oder ${often}${device}, wenn ${cause}`;
}

function useDecimalComma(digits: string): string {
  return digits.replace(".", ",");
}

/** How reasons name a kind of number, and how they format its numbers. */
export interface NumberWords extends Intl.NumberFormatOptions {
  readonly name: string;
}

/** Texts, and the language and the words with which numbers are formatted. */
export interface LocalizedTexts {
  readonly lang: string;
  readonly texts: Texts;
  readonly numbers: Readonly<Record<string, NumberWords>>;
}

/**
 * Return the built-in texts of a language, replaced by the page's own texts where there are some.
 */
export function chooseTexts(
  asked: string,
  own?: Partial<Texts>,
  numbers: LocalizedTexts["numbers"] = {},
): LocalizedTexts {
  const [, language = ""] = /^([a-z]{2,3})([-_]|$)/i.exec(asked) ?? [];
  const isGerman = language.toLowerCase() === "de";
  const lang = isGerman || own !== undefined ? language || "en" : "en";
  return { lang, texts: { ...(isGerman ? GERMAN : ENGLISH), ...own }, numbers };
}

/** Return the name and the value of each term, and of the figures that follow from the terms. */
export function listRows(
  { terms, figures, odds }: Offer,
  limit: number,
  texts: Texts,
  lang: string,
) {
  const { local, dummiesOnly, central, delta } = figures;
  const [truth, chance] = [100 * odds.truth, 100 * odds.chance];
  const values = { limit, local, dummiesOnly, central, delta, truth, chance, ...terms };
  return (Object.keys(texts.rows) as RowName[]).map((row): [string, string] => [
    texts.rows[row],
    formatValue(values[row], lang),
  ]);
}

/** Return all changes of the terms, not only those for the worse. */
export function listChanges(accepted: Terms, asked: Terms, texts: Texts, lang: string): string[] {
  const names = Object.keys(asked) as (keyof Terms)[];
  return names.flatMap((name) => {
    const [before, now] = [accepted[name], asked[name]].map((value) => formatValue(value, lang));
    if (before === undefined || now === undefined || before === now) return [];
    return [`${texts.rows[name]}: ${fillIn(texts.changedRow, now, before)}`];
  });
}

function formatValue(value: Terms[keyof Terms], lang: string): string {
  if (typeof value === "number") return formatNumber(value, lang);
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return value ? "✓" : "–";
  const named = Object.entries(value).map(
    ([name, number]) => `${name} ${formatNumber(number, lang)}`,
  );
  return named.sort().join(", ") || "–";
}

const MAX_DIGITS = 4;

/**
 * Format a number in a language with at most four significant digits, never rounded down. Whole
 * numbers keep all digits.
 */
export function formatNumber(value: number, lang: string): string {
  const [mantissa = "", exponent] = value.toExponential(14).split("e");
  const all = mantissa.replace(/[.-]/g, "");
  const isWhole = Number.isInteger(value);
  const leading = Number(all.slice(0, MAX_DIGITS)) + (Number(all.slice(MAX_DIGITS)) > 0 ? 1 : 0);
  const rounded = isWhole ? value : Number(`${leading}e${Number(exponent) - MAX_DIGITS + 1}`);
  return rounded.toLocaleString(lang, { maximumFractionDigits: 20, useGrouping: true });
}

/**
 * Return the reasons for a recommendation as a sentence; null if it has no reasons.
 */
export function formatReason(
  { reasons }: Pick<Recommendation, "reasons">,
  words: LocalizedTexts,
): string | null {
  if (reasons.length === 0) return null;
  const { texts, lang } = words;
  const names = reasons.map((reason) => {
    if (reason.kind === "item") return reason.title;
    if (reason.kind === "now") return texts.now;
    return reason.band ? formatBand(reason.tag, reason.band, words) : reason.name;
  });
  const list = new Intl.ListFormat(lang, { type: "conjunction" }).format(names);
  return fillIn(texts.reason, list);
}

/** Say where first lists come from: a sentence, and its details. */
export function formatStart(
  { name, people, lastDate, licence }: Provenance,
  texts: Texts,
  lang: string,
): [string, string] {
  const details = [formatNumber(people, lang), lastDate ?? "–", licence];
  return [fillIn(texts.start, name), fillIn(texts.startDetails, ...details)];
}

/** Format a band of numbers with the name of its kind, without which nobody would understand it. */
function formatBand(
  kind: string,
  { low, high }: Band,
  { texts, lang, numbers }: LocalizedTexts,
): string {
  const { name, ...format } = numbers[kind] ?? { name: kind };
  const formatter = new Intl.NumberFormat(lang, { useGrouping: false, ...format });
  const [from, to] = [low, high].map((edge) => formatter.format(edge ?? 0)) as [string, string];
  if (low === null) return `${name} ${fillIn(texts.under, to)}`;
  if (high === null) return `${name} ${fillIn(texts.orMore, from)}`;
  return `${name} ${low === high ? from : formatter.formatRange(low, high)}`;
}

/** Fill values into the places `{0}`, `{1}` ... of a text. */
export function fillIn(text: string, ...values: string[]): string {
  return text.replace(/\{(\d)\}/g, (_, at) => values[Number(at)] ?? "");
}
