/**
 * Drawn by hand: a line over epochs, and what epsilon means.
 */

import { h, svg } from "../dom.js";
import type { Offer } from "../session.js";
import { atMostText, ratio, reportsText, surenessText } from "../words.js";

const PAPER: Paper = { width: 400, height: 240, left: 46, right: 16, top: 30, bottom: 36 };

export interface Chart {
  id: string;
  title: string;
  description: string;
  values: readonly Value[];
  /** The value axis reaches at least so far. */
  least: number;
  write(value: number): string;
  /** Levels to compare with. */
  levels?: readonly Level[];
}

/** A line across the chart, and on which side its name stands. */
export interface Level {
  value: number;
  name: string;
  side: "left" | "right";
}

export function chart(wanted: Chart): SVGSVGElement {
  const { id, title, description, values, least } = wanted;
  const places = layout(values, PAPER, least);
  return svg(
    "svg",
    {
      id,
      class: "chart",
      viewBox: `0 0 ${PAPER.width} ${PAPER.height}`,
      role: "img",
      "aria-labelledby": `${id}-title ${id}-description`,
    },
    svg("title", { id: `${id}-title` }, title),
    svg("desc", { id: `${id}-description` }, description),
    ...axes(places, wanted),
    ...(wanted.levels ?? []).flatMap((each) => level(places, each)),
    svg("path", { class: "area", d: area(places) }),
    svg("path", { class: "line", d: places.line }),
    ...marks(places, wanted),
  );
}

const RIGHT = PAPER.width - PAPER.right;
const FOOT = PAPER.height - PAPER.bottom;

function axes({ rows, columns }: Layout, { write }: Chart): SVGElement[] {
  return [
    ...rows.flatMap(({ at, value }) => [
      svg("line", { class: "grid", x1: PAPER.left, x2: RIGHT, y1: at, y2: at }),
      svg(
        "text",
        { class: "tick", x: PAPER.left - 8, y: at + 4, "text-anchor": "end" },
        write(value),
      ),
    ]),
    ...columns.map(({ at, value }) =>
      svg("text", { class: "tick", x: at, y: FOOT + 16, "text-anchor": "middle" }, String(value)),
    ),
    svg("text", { class: "tick", x: RIGHT, y: PAPER.height - 3, "text-anchor": "end" }, "epoch"),
  ];
}

/** Between the lowest and the highest row, as the values are. */
function level({ rows }: Layout, { value, name, side }: Level): SVGElement[] {
  const top = rows.at(-1);
  if (top === undefined) return [];
  const y = FOOT + (top.at - FOOT) * (value / top.value);
  const [x, anchored] = side === "left" ? [PAPER.left + 4, "start"] : [RIGHT, "end"];
  return [
    svg("line", { class: "level", x1: PAPER.left, x2: RIGHT, y1: y, y2: y }),
    svg("text", { class: "tick", x, y: y - 5, "text-anchor": anchored }, name),
  ];
}

function area({ marks, line }: Layout): string {
  const [first, last] = [marks[0], marks.at(-1)];
  return first === undefined || last === undefined
    ? ""
    : `${line}L${last.x} ${FOOT}L${first.x} ${FOOT}Z`;
}

function marks(places: Layout, { write }: Chart): SVGElement[] {
  const last = places.marks.at(-1);
  if (last === undefined) return [];
  return [
    ...places.marks.map(({ x, y }) => svg("circle", { class: "mark", cx: x, cy: y, r: 2 })),
    svg("circle", { class: "last", cx: last.x, cy: last.y, r: 4.5 }),
    // Above everything that is drawn: the axis ends there.
    svg(
      "text",
      { class: "value", x: RIGHT, y: PAPER.top - 9, "text-anchor": "end" },
      write(last.value),
    ),
  ];
}

export interface Value {
  epoch: number;
  value: number;
}

/** A line on an axis. */
export interface Tick {
  at: number;
  value: number;
}

/** Where everything of a chart goes, in the units of its view box. */
export interface Layout {
  marks: readonly { x: number; y: number; epoch: number; value: number }[];
  /** For a path. */
  line: string;
  rows: readonly Tick[];
  columns: readonly Tick[];
}

export interface Paper {
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** A curve that has just begun does not fill the paper. */
const FEWEST = 4;

/** Lays out values over epochs; the value axis begins at 0 and ends at a round number. */
export function layout(values: readonly Value[], paper: Paper, least: number): Layout {
  const epochs = values.map(({ epoch }) => epoch);
  const first = Math.min(...epochs);
  const last = Math.max(...epochs, first + FEWEST);
  const step = roundStep(Math.max(least, ...values.map(({ value }) => value)) / 4);
  const top = step * Math.ceil(Math.max(least, ...values.map(({ value }) => value)) / step - 1e-9);
  const x = (epoch: number) =>
    rounded(along(paper.left, paper.width - paper.right, (epoch - first) / (last - first)));
  const y = (value: number) => rounded(along(paper.height - paper.bottom, paper.top, value / top));
  const marks = values.map(({ epoch, value }) => ({ x: x(epoch), y: y(value), epoch, value }));
  return {
    marks,
    line: marks.map((mark, at) => `${at === 0 ? "M" : "L"}${mark.x} ${mark.y}`).join(""),
    rows: steps(0, top, step).map((value) => ({ at: y(value), value })),
    columns: epochTicks(first, last).map((value) => ({ at: x(value), value })),
  };
}

/** The least of 1, 2, 5 times a power of ten that is not below. */
function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].find((each) => each * power >= least * (1 - 1e-9)) ?? 10;
  return step * power;
}

/** At most six epochs, whole ones, the first among them. */
function epochTicks(first: number, last: number): number[] {
  return steps(first, last, Math.max(1, roundStep((last - first) / 5)));
}

function steps(first: number, last: number, step: number): number[] {
  const count = Math.floor((last - first) / step + 1e-9) + 1;
  return Array.from({ length: count }, (_, at) => first + at * step);
}

function along(from: number, to: number, share: number): number {
  return from + (to - from) * share;
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}

/** What epsilon means, in a picture: one report in two worlds, and how sure it can make somebody. */

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
