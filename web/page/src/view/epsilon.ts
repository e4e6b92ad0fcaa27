/** What epsilon means, in a picture: one report in two worlds, and how sure it can make somebody. */

import type { Offer } from "sottovoce-client";
import { h, svg } from "../dom.js";
import { atMostText, ratio, reportsText, surenessText } from "../words.js";

const WIDTH = 340;
const BAR = 240;
const ROW = 36;
const TOP = 120;
/** To compare with: nothing said, and three steps that people argue about. */
const YARDSTICKS = [0, 1, 3, 10];

/** An epsilon, and whose it is if it is not a yardstick. */
export interface Step {
  epsilon: number;
  name: string | null;
}

/** The steps of the picture, the most private first. */
export function stepsOf({ terms, figures }: Pick<Offer, "terms" | "figures">): Step[] {
  const { epsilon, reports } = terms;
  const { local, central } = figures;
  const own: Step[] = [{ epsilon, name: "one report" }];
  if (reports > 1)
    own.push({ epsilon: epsilon * reports, name: `${reportsText(reports)} of an epoch, linked` });
  if (local > epsilon * reports) own.push({ epsilon: local, name: "everything, linked" });
  if (central < local) own.push({ epsilon: central, name: "everything, mixed" });
  const others = YARDSTICKS.filter((each) => own.every((step) => step.epsilon !== each));
  const steps = [...own, ...others.map((each) => ({ epsilon: each, name: null }))];
  return steps.sort((a, b) => a.epsilon - b.epsilon);
}

/** The picture with its words. An id for each place that has one. */
export function epsilonFigure(id: string, offer: Offer): HTMLElement {
  const { epsilon } = offer.terms;
  return h(
    "figure",
    { class: "epsilon" },
    picture(id, epsilon, stepsOf(offer)),
    h(
      "figcaption",
      { class: "note" },
      "Epsilon says how much a report can tell. Whether you saw a film or not, any report could come " +
        `from this device; with epsilon ${atMostText(epsilon)} it is at most ${ratio(epsilon)} times ` +
        "likelier in one case than in the other. The smaller epsilon is, the less it tells. Linked means " +
        "that somebody knows which reports are this device's: then their epsilons add up. Mixed means " +
        "that nobody knows: then it is the number of other people that counts, and one in a million " +
        "is added to every chance. Everything is what this device has reported and may still report " +
        "under these terms.",
    ),
  );
}

function picture(id: string, epsilon: number, steps: readonly Step[]): SVGSVGElement {
  return svg(
    "svg",
    {
      id,
      viewBox: `0 0 ${WIDTH} ${TOP + 30 + steps.length * ROW}`,
      role: "img",
      "aria-labelledby": `${id}-title ${id}-description`,
    },
    svg("title", { id: `${id}-title` }, "What epsilon means"),
    svg("desc", { id: `${id}-description` }, described(epsilon, steps)),
    ...worlds(epsilon),
    heading(TOP, "A guess, 50 in 100: you saw a film."),
    heading(TOP + 18, "Afterwards they can be at most so sure:"),
    ...steps.flatMap((step, at) => drawn(step, TOP + 40 + at * ROW)),
  );
}

function described(epsilon: number, steps: readonly Step[]): string {
  const sure = steps.map(
    ({ epsilon, name }) => `epsilon ${atMostText(epsilon)}${own(name)}: ${surenessText(epsilon)}`,
  );
  return (
    `One and the same report is at most ${ratio(epsilon)} times likelier if you saw a film than if you ` +
    "did not, or the other way round. Somebody who takes it for as likely as not that you saw the " +
    `film can afterwards be at most so sure: ${sure.join("; ")}.`
  );
}

function own(name: string | null): string {
  return name === null ? "" : ` (${name})`;
}

/** To scale, as far as a bar can be drawn. */
function worlds(epsilon: number): SVGElement[] {
  const one = Math.max(1.5, BAR / Math.exp(epsilon));
  return [
    heading(14, "How likely is one and the same report?"),
    ...bar({ y: 24, name: "if you saw a film", length: BAR, value: `${ratio(epsilon)} times` }),
    ...bar({ y: 24 + ROW, name: "if you did not", length: one, value: "once" }),
  ];
}

/** From a guess at the left to certainty at the right. */
function drawn({ epsilon, name }: Step, y: number): SVGElement[] {
  const share = 2 / (1 + Math.exp(-epsilon)) - 1;
  const words = `epsilon ${atMostText(epsilon)}${name === null ? "" : `: ${name}`}`;
  const kind = name === null ? "yardstick" : "";
  return bar({ y, name: words, length: share * BAR, value: surenessText(epsilon), kind });
}

interface Bar {
  y: number;
  name: string;
  length: number;
  value: string;
  kind?: string;
}

function bar({ y, name, length, value, kind = "" }: Bar): SVGElement[] {
  return [
    svg("text", { x: 0, y: y + 10, class: kind }, name),
    svg("rect", { class: "whole", x: 0, y: y + 16, width: BAR, height: 9, rx: 4.5 }),
    svg("rect", { class: kind, x: 0, y: y + 16, width: length, height: 9, rx: 4.5 }),
    svg("text", { x: WIDTH, y: y + 25, class: kind, "text-anchor": "end" }, value),
  ];
}

function heading(y: number, text: string): SVGElement {
  return svg("text", { class: "heading", x: 0, y }, text);
}
