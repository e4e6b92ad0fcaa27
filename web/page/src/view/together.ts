/** What everybody has taught the model together, and what everybody is promised. */

import type { Offer } from "sottovoce-client";
import { inFigures, type Manifest, telling } from "sottovoce-client";
import { h, say, section, show, type View } from "../dom.js";
import { sentence } from "../session.js";
import type { Curve, Point, State } from "../state.js";
import { crowdSentence, WHEN } from "../terms.js";
import { amountText, atMostText, countdownText, oddsSentence, sentencesOf } from "../words.js";
import { chart, type Level } from "./chart.js";
import { epsilonFigure } from "./epsilon.js";

/** So often blind chance puts a film among the first ten of a hundred. */
const CHANCE = 0.1;

export function togetherView(options: { statement: string; notice: string }) {
  const facts = factsView();
  const learning = h(
    "div",
    { id: "learning" },
    h("p", { class: "empty" }, "The history is on its way."),
  );
  const epsilon = epsilonView();
  const statement = statementView(options);
  let shown = "";
  return {
    element: section(
      "together",
      "Together",
      "One model, taught by everybody's whispers.",
      ...(options.notice ? [h("p", { id: "operator-notice", class: "note" }, options.notice)] : []),
      facts.element,
      learning,
      epsilon.element,
      h("h3", {}, "What is promised"),
      statement.element,
    ),
    update(state: State) {
      facts.update(state);
      epsilon.update(state);
      statement.update(state);
    },
    showCurve(curve: Curve) {
      const now = JSON.stringify(curve);
      if (now === shown) return;
      shown = now;
      const open = learning.querySelector("details")?.open ?? false;
      const focused = learning.contains(document.activeElement);
      learning.replaceChildren(...curveParts(curve, open));
      if (focused) learning.querySelector("summary")?.focus();
    },
    tick: facts.tick,
  };
}

/** Drawn anew for other terms only. */
function epsilonView(): View {
  const element = h("div", {});
  let shown: Offer | null = null;
  return {
    element,
    update({ offer }) {
      if (offer === null || JSON.stringify(offer) === JSON.stringify(shown)) return;
      shown = offer;
      element.replaceChildren(h("h3", {}, "What epsilon means"), epsilonFigure("epsilon", offer));
    },
  };
}

/** In plain words, worked out here from the signed terms; the operator's own words on demand. */
function statementView(options: { statement: string }): View {
  const plain = h("ul", { id: "statement", class: "terms" });
  let shown = "";
  return {
    element: h("div", {}, plain, ...(options.statement ? [ownWords(options.statement)] : [])),
    update({ offer, spent }) {
      const text = offer === null ? [] : statementOf(offer, spent);
      if (text.join() === shown) return;
      shown = text.join();
      plain.replaceChildren(...text.map((sentence) => h("li", {}, sentence)));
    },
  };
}

/** The numbers above do not come from there. */
function ownWords(statement: string): HTMLElement {
  return h(
    "details",
    { id: "operator-statement" },
    h("summary", {}, "The operator's own words"),
    h("ul", { class: "terms" }, ...sentencesOf(statement).map((each) => h("li", {}, each))),
  );
}

function factsView(): View & { tick(now: number): void } {
  const epoch = h("dd", { id: "epoch" });
  const closes = h("span", { id: "countdown", role: "timer", "aria-live": "off" });
  const closesName = h("dt", {});
  const people = h("dd", { id: "people" });
  const mechanism = h("p", { id: "mechanism", class: "note" });
  const list = h(
    "dl",
    { class: "facts" },
    h("div", {}, h("dt", {}, "Epoch"), epoch),
    h("div", {}, h("dt", {}, "People behind it"), people),
    h("div", {}, closesName, h("dd", {}, closes)),
  );
  const element = h("div", { hidden: true }, list, mechanism);
  let manifest: Manifest | null = null;
  return {
    element,
    update({ manifest: held, offer }: State) {
      manifest = held;
      show(element, held !== null);
      if (held === null || offer === null) return;
      say(epoch, amountText(held.epoch));
      say(people, amountText(Math.round(held.reportsBehind / offer.terms.reports)));
      say(
        mechanism,
        `The way in which reports are made is called ${offer.terms.mechanism}: ${offer.about}`,
      );
    },
    tick(now) {
      if (manifest === null) return;
      const { name, value } = closing(manifest, now);
      say(closesName, name);
      say(closes, value);
    },
  };
}

/** What comes next for an epoch, and when. */
function closing(
  { publicKey, opens, closes, terms }: Closing,
  now: number,
): { name: string; value: string } {
  if (publicKey === null) return { name: "Reports asked for", value: "none" };
  if (now < opens) return { name: "Opens in", value: countdownText(opens - now) };
  if (now < closes) return { name: "Closes in", value: countdownText(closes - now) };
  if (now < closes + terms.hold) return { name: "Waits for", value: "its crowd" };
  return { name: "Closed", value: "over" };
}

type Closing = Pick<Manifest, "publicKey" | "opens" | "closes"> & { terms: { hold: number } };

function curveParts(curve: Curve, open: boolean): Node[] {
  const { points } = curve;
  if (points.length === 0) return [h("p", { class: "empty" }, "There is no history yet.")];
  return curve.panel === null
    ? [
        h("h3", {}, "People who took part"),
        peopleChart(points),
        h("p", { class: "note" }, "How good the model is, is not published here."),
        table(points, open),
      ]
    : [
        h("h3", {}, "How good the model is"),
        qualityChart(curve),
        h("p", { class: "note" }, measured(curve.panel) + compared(curve)),
        table(points, open),
      ];
}

function measured(people: number): string {
  return (
    `Of each of ${amountText(people)} test people, one film that they saw was hidden among 99 ` +
    "others. The curve says for how many of 100 people the model has it among its first ten; blind " +
    "chance would for ten. Researchers call this HR@10, the hit ratio at ten. Worked out on this " +
    "device, from the signed models."
  );
}

function compared({ popularity, tagsAlone }: Curve): string {
  const tags =
    tagsAlone === null
      ? ""
      : ` The line "tags alone": ${percent(tagsAlone)}, what a list by tags such as genres reaches ` +
        "without anybody's reports. What lies above it, everybody's whispers have added.";
  return popularity === null
    ? tags
    : `${tags} The line "popularity": ${percent(popularity)}, what a list of the most popular films ` +
        "reaches with the same tags, without any learnt taste.";
}

function qualityChart({ points, popularity, tagsAlone }: Curve): Node {
  const values = points.flatMap(({ epoch, quality }) =>
    quality === null ? [] : [{ epoch, value: quality }],
  );
  // The name on the left stands above a curve that has just begun.
  const others: Level[] = [];
  if (popularity !== null) others.push({ value: popularity, name: "popularity", side: "left" });
  if (tagsAlone !== null) others.push({ value: tagsAlone, name: "tags alone", side: "right" });
  return chart({
    id: "curve",
    title: "How good the model is, by epoch",
    description: trend(values, percent) + levelsText(others),
    values,
    least: Math.max(0.4, popularity ?? 0),
    write: percent,
    levels: [{ value: CHANCE, name: "chance", side: "right" }, ...others],
  });
}

function peopleChart(points: readonly Point[]): Node {
  const values = points.flatMap(({ epoch, people }) =>
    people === null ? [] : [{ epoch, value: people }],
  );
  if (values.length === 0) return h("p", { class: "empty" }, "No epoch is over yet.");
  return chart({
    id: "curve",
    title: "People who took part, by epoch",
    description: trend(values, amountText),
    values,
    least: 4,
    write: amountText,
  });
}

function levelsText(levels: readonly Level[]): string {
  return levels.map(({ name, value }) => ` Line "${name}": ${percent(value)}.`).join("");
}

/** A curve in one sentence. */
function trend(
  values: readonly { epoch: number; value: number }[],
  write: (value: number) => string,
): string {
  const [first, last] = [values[0], values.at(-1)];
  if (first === undefined || last === undefined) return "";
  if (first === last) return `${write(first.value)} in epoch ${first.epoch}.`;
  return `From ${write(first.value)} in epoch ${first.epoch} to ${write(last.value)} in epoch ${last.epoch}.`;
}

function percent(value: number): string {
  return `${(value * 100).toFixed(0)}%`;
}

function table(points: readonly Point[], open: boolean): HTMLElement {
  const measured = points.some(({ quality }) => quality !== null);
  const rows = points.map(({ epoch, quality, people }) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, String(epoch)),
      measured && h("td", {}, quality === null ? "–" : `${(quality * 100).toFixed(1)}%`),
      h("td", {}, people === null ? "not over" : amountText(people)),
    ),
  );
  const names = ["Epoch", ...(measured ? ["Found (HR@10)"] : []), "People"];
  return h(
    "details",
    { id: "curve-table", open },
    h("summary", {}, "The same as a table"),
    h(
      "table",
      {},
      h("caption", { class: "visually-hidden" }, "Every epoch so far"),
      h("thead", {}, h("tr", {}, ...names.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ...rows),
    ),
  );
}

/** What holds, from the signed terms and this device's ledger alone. */
export function statementOf(offer: Offer, spent: number): string[] {
  const { terms, odds, figures } = offer;
  return [
    `Your history stays here. ${telling(figures)}`,
    oddsSentence(odds),
    crowdSentence(terms, figures),
    ...inFigures(figures).map(([name, words]) => sentence(`${name}: ${words}`)),
    `So far this device has spent ${atMostText(spent)}.`,
    `When reports leave: ${WHEN}`,
    "Not hidden: that you take part.",
  ];
}
