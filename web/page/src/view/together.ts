/** The section about the common model: how good it is, and what every device is promised. */

import type { Offer } from "sottovoce-client";
import { describeFigures, describeGuess, type Manifest, type Provenance } from "sottovoce-client";
import { createSvg, h, setText, setVisible } from "../dom.js";
import type { Curve, NowFilm, Point, State } from "../state.js";
import { formatCrowd, WHEN_SENTENCE } from "../terms.js";
import { formatTitle } from "../titles.js";
import { toSentence } from "../trouble.js";
import {
  describeMechanism,
  formatAmount,
  formatBound,
  formatCountdown,
  formatEarlier,
  formatOdds,
  formatStart,
  splitSentences,
} from "../words.js";
import { drawChart, type Level } from "./chart.js";
import { createEpsilonFigure } from "./epsilon.js";
import { createDetails, createSection, type View } from "./parts.js";

/** Hit ratio of a list in random order: ten of a hundred films. */
const CHANCE_HIT_RATIO = 0.1;

export function createTogetherView(options: { statement: string; earlierEpsilon: number }) {
  const facts = createFactsView();
  const learning = createLearningView();
  const promises = [createEpsilonView(), createStatementView(options)];
  return {
    element: createSection(
      "together",
      "Together",
      null,
      learning.chart,
      facts.element,
      ...learning.details,
      ...promises.map(({ element }) => element),
    ),
    update(state: State) {
      for (const view of [facts, ...promises]) view.update(state);
    },
    showCurve(curve: Curve) {
      learning.show(curve);
      facts.showCurve(curve);
    },
    tick: facts.tick,
  };
}

/** Create the chart of the learning curve, and the collapsible sections that explain it. */
function createLearningView() {
  const chart = h(
    "div",
    { id: "learning" },
    h("p", { class: "empty" }, "The history is on its way."),
  );
  const now = h("div", {});
  const measure = h("div", {});
  const nowSection = createDetails("now-section", "What many see now", now);
  const details = [nowSection, createDetails("measure", "How this is measured", measure)];
  let displayed = "";
  setVisible(nowSection, false);
  return {
    chart,
    details,
    show(curve: Curve) {
      const current = JSON.stringify(curve);
      if (current === displayed) return;
      displayed = current;
      chart.replaceChildren(drawCurve(curve));
      now.replaceChildren(...createNowParts(curve.now));
      setVisible(nowSection, curve.now.length > 0);
      measure.replaceChildren(
        h("p", { class: "note" }, explainMeasure(curve.panel) + explainComparison(curve)),
        createTable(curve.points),
      );
    },
  };
}

/** Create the view of the picture of epsilon. It is drawn again only if the offer changes. */
function createEpsilonView(): View {
  const picture = h("div", {});
  let displayedOffer: Offer | null = null;
  return {
    element: createDetails("meaning", "What epsilon means", picture),
    update({ offer }) {
      if (offer === null || JSON.stringify(offer) === JSON.stringify(displayedOffer)) return;
      displayedOffer = offer;
      picture.replaceChildren(createEpsilonFigure("epsilon", offer));
    },
  };
}

/**
 * Create the view of the statement, which is computed here from the signed terms. The operator's
 * own words are in a collapsible section below.
 */
function createStatementView(options: { statement: string; earlierEpsilon: number }): View {
  const plain = h("ul", { id: "statement", class: "terms" });
  const note = h(
    "p",
    { class: "note" },
    `This page asks nobody but ${location.host}, which sent it: no cookie, no third party.`,
  );
  const operator = options.statement === "" ? [] : [createOperatorStatement(options.statement)];
  let displayed = "";
  return {
    element: createDetails("promise", "What is promised", plain, note, ...operator),
    update({ manifest, offer, spentEpsilon }) {
      const start = manifest?.start ?? null;
      // Without an offer, no reports are asked for.
      const source = start === null ? [] : [`${formatStart(start)}.`];
      const text =
        offer === null
          ? source
          : formatStatement(offer, spentEpsilon, options.earlierEpsilon, start);
      if (text.join() === displayed) return;
      displayed = text.join();
      plain.replaceChildren(...text.map((sentence) => h("li", {}, sentence)));
    },
  };
}

/**
 * Create the collapsible section with the operator's own words. The figures above it are computed
 * from the signed terms.
 */
function createOperatorStatement(statement: string): HTMLElement {
  const sentences = splitSentences(statement).map((sentence) => h("li", {}, sentence));
  const list = h("ul", { class: "terms" }, ...sentences);
  return createDetails("operator-statement", "The operator's own words", list);
}

/** Create the three sentences: on the epoch, on the quality of the model, and on the promise. */
function createFactsView() {
  const epoch = h("span", { id: "epoch" });
  const closing = h("span", {});
  const countdown = h("span", { id: "countdown", role: "timer", "aria-live": "off" });
  const people = h("span", { id: "people" });
  const element = h(
    "div",
    { class: "facts", hidden: true },
    h(
      "p",
      {},
      ...["Epoch ", epoch, ", a round of learning, ", closing, " ", countdown],
      ...["; ", people, " taught its model."],
    ),
  );
  const quality = h("p", {});
  const promise = h("p", {});
  element.append(quality, promise);
  let manifest: Manifest | null = null;
  return {
    element,
    update({ manifest: newManifest, offer }: State) {
      manifest = newManifest;
      setVisible(element, newManifest !== null);
      if (newManifest === null) return;
      const { reportsBehind, terms } = newManifest;
      setText(epoch, formatAmount(newManifest.epoch));
      setText(people, formatPeople(reportsBehind / terms.reports));
      // Without an offer, no reports are asked for.
      const guess = offer === null ? null : describeGuess(offer.figures);
      setText(
        promise,
        guess === null
          ? "Your history stays here, and no reports are asked for."
          : `Your history stays here, only reports leave: ${guess.charAt(0).toLowerCase()}${guess.slice(1)}`,
      );
    },
    showCurve: (curve: Curve) => setText(quality, describeQuality(curve)),
    tick(now: number) {
      if (manifest === null) return;
      const { name, value } = describeClosing(manifest, now);
      setText(closing, name);
      setText(countdown, value);
    },
  };
}

function formatPeople(people: number): string {
  const count = Math.round(people);
  if (count === 0) return "nobody";
  return count === 1 ? "1 person" : `${formatAmount(count)} people`;
}

const NO_QUALITY_SENTENCE = "How good the model is, is not published here.";

/** Describe how good the latest model is, next to popularity and chance. */
function describeQuality({ points, popularity }: Curve): string {
  const quality = points.at(-1)?.quality ?? null;
  if (quality === null) return NO_QUALITY_SENTENCE;
  const inHundred = (value: number) => (value * 100).toFixed(0);
  const byChance = `chance for ${inHundred(CHANCE_HIT_RATIO)}`;
  const others =
    popularity === null ? byChance : `popularity for ${inHundred(popularity)}, ${byChance}`;
  return `For ${inHundred(quality)} of 100 test people it finds a film that was hidden from it; ${others}.`;
}

/** Return the name of the next event of an epoch, and the time until it. */
function describeClosing(
  { publicKey, opens, closes, terms }: Closing,
  now: number,
): { name: string; value: string } {
  if (publicKey === null) return { name: "asks for", value: "no reports" };
  if (now < opens) return { name: "opens in", value: formatCountdown(opens - now) };
  if (now < closes) return { name: "closes in", value: formatCountdown(closes - now) };
  if (now < closes + terms.hold) return { name: "waits for", value: "its crowd" };
  return { name: "is", value: "over" };
}

type Closing = Pick<Manifest, "publicKey" | "opens" | "closes"> & { terms: { hold: number } };

function drawCurve(curve: Curve): Node {
  if (curve.points.length === 0) return h("p", { class: "empty" }, "There is no history yet.");
  return curve.panel === null ? drawPeopleChart(curve.points) : drawQualityChart(curve);
}

/** Create the list of what many see now, with a bar for the share of each film. */
function createNowParts(films: readonly NowFilm[]): Node[] {
  const largest = Math.max(...films.map(({ share }) => share));
  const items = films.map((film) => createNowFilm(film, largest));
  return [
    h("ol", { id: "now", class: "now", "aria-label": "What many see now" }, ...items),
    h(
      "p",
      { class: "note" },
      "For everybody the same: the share of each film in what the reports named lately, as far as it can " +
        "be told through what was drawn at random.",
    ),
  ];
}

function createNowFilm(film: NowFilm, largest: number): HTMLElement {
  const width = largest > 0 ? (100 * film.share) / largest : 0;
  return h(
    "li",
    {},
    h("span", { class: "name" }, formatTitle(film)),
    " ",
    h("span", { class: "share" }, `${(film.share * 100).toFixed(1)}%`),
    createSvg(
      "svg",
      { class: "bar", viewBox: "0 0 100 1", preserveAspectRatio: "none", "aria-hidden": "true" },
      createSvg("rect", { width, height: 1 }),
    ),
  );
}

function explainMeasure(people: number | null): string {
  if (people === null) return NO_QUALITY_SENTENCE;
  return (
    `Of each of ${formatAmount(people)} test people, one film that they saw was hidden among 99 ` +
    "others. The curve says for how many of 100 people the model has it among its first ten; blind " +
    "chance would for ten. Researchers call this HR@10, the hit ratio at ten. Worked out on this " +
    "device, from the signed models."
  );
}

function explainComparison({ popularity, start, tagsOnly }: Curve): string {
  const tags =
    tagsOnly === null
      ? ""
      : ` The line "tags alone": ${formatPercent(tagsOnly)}, what a list by tags such as genres reaches ` +
        `without anybody's reports. What lies above it, ${start === null ? "" : "public data and "}everybody's whispers have added.`;
  return popularity === null
    ? tags
    : `${tags} The line "popularity": ${formatPercent(popularity)}, what a list of the most popular films ` +
        "reaches with the same tags, without any learnt taste.";
}

function drawQualityChart({ points, popularity, tagsOnly }: Curve): Node {
  const values = points.flatMap(({ epoch, quality }) =>
    quality === null ? [] : [{ epoch, value: quality }],
  );
  // Names on the left do not overlap a curve that has just begun.
  const others: Level[] = [];
  if (popularity !== null) others.push({ value: popularity, name: "popularity", side: "left" });
  if (tagsOnly !== null) others.push({ value: tagsOnly, name: "tags alone", side: "right" });
  return drawChart({
    id: "curve",
    title: "How good the model is, by epoch",
    description: describeTrend(values, formatPercent) + formatLevels(others),
    values,
    minTop: Math.max(0.4, popularity ?? 0),
    format: formatPercent,
    levels: [{ value: CHANCE_HIT_RATIO, name: "chance", side: "right" }, ...others],
  });
}

function drawPeopleChart(points: readonly Point[]): Node {
  const values = points.flatMap(({ epoch, people }) =>
    people === null ? [] : [{ epoch, value: people }],
  );
  if (values.length === 0) return h("p", { class: "empty" }, "No epoch is over yet.");
  return drawChart({
    id: "curve",
    title: "People who took part, by epoch",
    description: describeTrend(values, formatAmount),
    values,
    minTop: 4,
    format: formatAmount,
  });
}

function formatLevels(levels: readonly Level[]): string {
  return levels.map(({ name, value }) => ` Line "${name}": ${formatPercent(value)}.`).join("");
}

/** Describe a curve in one sentence. */
function describeTrend(
  values: readonly { epoch: number; value: number }[],
  format: (value: number) => string,
): string {
  const [first, last] = [values[0], values.at(-1)];
  if (first === undefined || last === undefined) return "";
  if (first === last) return `${format(first.value)} in epoch ${first.epoch}.`;
  return `From ${format(first.value)} in epoch ${first.epoch} to ${format(last.value)} in epoch ${last.epoch}.`;
}

function formatPercent(value: number): string {
  return `${(value * 100).toFixed(0)}%`;
}

function createTable(points: readonly Point[]): HTMLElement {
  const isMeasured = points.some(({ quality }) => quality !== null);
  const rows = points.map(({ epoch, quality, people }) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, String(epoch)),
      isMeasured && h("td", {}, quality === null ? "–" : `${(quality * 100).toFixed(1)}%`),
      h("td", {}, people === null ? "not over" : formatAmount(people)),
    ),
  );
  const names = ["Epoch", ...(isMeasured ? ["Found (HR@10)"] : []), "People"];
  return h(
    "table",
    { id: "curve-table" },
    h("caption", { class: "visually-hidden" }, "Every epoch so far"),
    h("thead", {}, h("tr", {}, ...names.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, ...rows),
  );
}

/**
 * Return the sentences of the privacy statement, computed only from the signed terms and this
 * device's ledger.
 */
export function formatStatement(
  offer: Offer,
  spentEpsilon: number,
  earlierEpsilon: number,
  start: Provenance | null = null,
): string[] {
  const { terms, odds, figures } = offer;
  return [
    `Your history stays here. ${describeGuess(figures)}`,
    formatOdds(odds),
    describeMechanism(terms.mechanism, odds),
    formatCrowd(terms, figures),
    ...describeFigures(figures).map(([name, words]) => toSentence(`${name}: ${words}`)),
    `So far this device has spent ${formatBound(spentEpsilon)}.`,
    ...(earlierEpsilon > 0 ? [formatEarlier(earlierEpsilon)] : []),
    `When reports leave: ${WHEN_SENTENCE}`,
    "Not hidden: that you take part.",
    ...(start === null ? [] : [`${formatStart(start)}. It has nothing of this device.`]),
  ];
}
