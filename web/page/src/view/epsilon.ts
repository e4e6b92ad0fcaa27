/**
 * A picture of the meaning of epsilon: how likely one report is in two cases, and how sure somebody
 * can become.
 */

import type { Offer } from "sottovoce-client";
import { createSvg, h } from "../dom.js";
import { formatBound, formatRatio, formatReports, formatSureness } from "../words.js";

const PICTURE_WIDTH = 340;
const BAR_WIDTH = 240;
const ROW_HEIGHT = 36;
const STEPS_TOP = 120;
/** Values of epsilon for comparison: 0, which means no information, and three common choices. */
const REFERENCE_EPSILONS = [0, 1, 3, 10];

/** One row of the picture: an epsilon with its name, which is null for a value for comparison. */
export interface Step {
  epsilon: number;
  name: string | null;
}

/** Return the rows of the picture, the most private first. */
export function listSteps({ terms, figures }: Pick<Offer, "terms" | "figures">): Step[] {
  const { epsilon, reports } = terms;
  const { local, central } = figures;
  const own: Step[] = [{ epsilon, name: "one report" }];
  if (reports > 1)
    own.push({ epsilon: epsilon * reports, name: `${formatReports(reports)} of an epoch, linked` });
  if (local > epsilon * reports) own.push({ epsilon: local, name: "everything, linked" });
  if (central < local) own.push({ epsilon: central, name: "everything, mixed" });
  const others = REFERENCE_EPSILONS.filter((reference) =>
    own.every((step) => step.epsilon !== reference),
  );
  const steps = [...own, ...others.map((reference) => ({ epsilon: reference, name: null }))];
  return steps.sort((a, b) => a.epsilon - b.epsilon);
}

/** Create the picture with its text. Each use on the page needs its own id. */
export function createEpsilonFigure(id: string, offer: Offer): HTMLElement {
  const { epsilon } = offer.terms;
  return h(
    "figure",
    { class: "epsilon" },
    drawPicture(id, epsilon, listSteps(offer)),
    h(
      "figcaption",
      { class: "note" },
      "Epsilon says how much a report can tell. Whether you saw a film or not, any report could come " +
        `from this device; with epsilon ${formatBound(epsilon)} it is at most ${formatRatio(epsilon)} times ` +
        "likelier in one case than in the other. The smaller epsilon is, the less it tells. Linked means " +
        "that somebody knows which reports are this device's: then their epsilons add up. Mixed means " +
        "that nobody knows: then it is the number of other people that counts, and one in a million " +
        "is added to every chance. Everything is what this device has reported and may still report " +
        "under these terms.",
    ),
  );
}

function drawPicture(id: string, epsilon: number, steps: readonly Step[]): SVGSVGElement {
  return createSvg(
    "svg",
    {
      id,
      viewBox: `0 0 ${PICTURE_WIDTH} ${STEPS_TOP + 30 + steps.length * ROW_HEIGHT}`,
      role: "img",
      "aria-labelledby": `${id}-title ${id}-description`,
    },
    createSvg("title", { id: `${id}-title` }, "What epsilon means"),
    createSvg("desc", { id: `${id}-description` }, describeSteps(epsilon, steps)),
    ...drawWorlds(epsilon),
    drawHeading(STEPS_TOP, "A guess, 50 in 100: you saw a film."),
    drawHeading(STEPS_TOP + 18, "Afterwards they can be at most so sure:"),
    ...steps.flatMap((step, at) => drawStep(step, STEPS_TOP + 40 + at * ROW_HEIGHT)),
  );
}

function describeSteps(epsilon: number, steps: readonly Step[]): string {
  const sure = steps.map(
    ({ epsilon, name }) =>
      `epsilon ${formatBound(epsilon)}${formatName(name)}: ${formatSureness(epsilon)}`,
  );
  return (
    `One and the same report is at most ${formatRatio(epsilon)} times likelier if you saw a film than if you ` +
    "did not, or the other way round. Somebody who takes it for as likely as not that you saw the " +
    `film can afterwards be at most so sure: ${sure.join("; ")}.`
  );
}

function formatName(name: string | null): string {
  return name === null ? "" : ` (${name})`;
}

/**
 * Draw the likelihood of one report in the two cases as two bars to scale. The smaller bar has a
 * minimum length.
 */
function drawWorlds(epsilon: number): SVGElement[] {
  const length = Math.max(1.5, BAR_WIDTH / Math.exp(epsilon));
  return [
    drawHeading(14, "How likely is one and the same report?"),
    ...drawBar({
      y: 24,
      name: "if you saw a film",
      length: BAR_WIDTH,
      value: `${formatRatio(epsilon)} times`,
    }),
    ...drawBar({ y: 24 + ROW_HEIGHT, name: "if you did not", length, value: "once" }),
  ];
}

/** Draw one row: the bar goes from a mere guess at the left to certainty at the right. */
function drawStep({ epsilon, name }: Step, y: number): SVGElement[] {
  const share = 2 / (1 + Math.exp(-epsilon)) - 1;
  const words = `epsilon ${formatBound(epsilon)}${name === null ? "" : `: ${name}`}`;
  const kind = name === null ? "yardstick" : "";
  return drawBar({
    y,
    name: words,
    length: share * BAR_WIDTH,
    value: formatSureness(epsilon),
    kind,
  });
}

interface Bar {
  y: number;
  name: string;
  length: number;
  value: string;
  kind?: string;
}

function drawBar({ y, name, length, value, kind = "" }: Bar): SVGElement[] {
  return [
    createSvg("text", { x: 0, y: y + 10, class: kind }, name),
    createSvg("rect", { class: "whole", x: 0, y: y + 16, width: BAR_WIDTH, height: 9, rx: 4.5 }),
    createSvg("rect", { class: kind, x: 0, y: y + 16, width: length, height: 9, rx: 4.5 }),
    createSvg("text", { x: PICTURE_WIDTH, y: y + 25, class: kind, "text-anchor": "end" }, value),
  ];
}

function drawHeading(y: number, text: string): SVGElement {
  return createSvg("text", { class: "heading", x: 0, y }, text);
}
