/**
 * Drawn by hand: a line over epochs, and what epsilon means.
 */

import { svg } from "../dom.js";

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
