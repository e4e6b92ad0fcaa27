/** A line chart over epochs, drawn as SVG. */

import { createSvg } from "../dom.js";

const CHART_PAPER: Paper = { width: 400, height: 240, left: 46, right: 16, top: 30, bottom: 36 };

/** The content of a chart. */
export interface ChartOptions {
  id: string;
  title: string;
  description: string;
  values: readonly EpochValue[];
  /** Smallest value at which the value axis may end. */
  minTop: number;
  format(value: number): string;
  /** Constant levels for comparison. */
  levels?: readonly Level[];
}

/** A horizontal line across the chart, and the side on which its name stands. */
export interface Level {
  value: number;
  name: string;
  side: "left" | "right";
}

export function drawChart(options: ChartOptions): SVGSVGElement {
  const { id, title, description, values, minTop } = options;
  const places = computeLayout(values, CHART_PAPER, minTop);
  return createSvg(
    "svg",
    {
      id,
      class: "chart",
      viewBox: `0 0 ${CHART_PAPER.width} ${CHART_PAPER.height}`,
      role: "img",
      "aria-labelledby": `${id}-title ${id}-description`,
    },
    createSvg("title", { id: `${id}-title` }, title),
    createSvg("desc", { id: `${id}-description` }, description),
    ...drawAxes(places, options),
    ...(options.levels ?? []).flatMap((level) => drawLevel(places, level)),
    createSvg("path", { class: "area", d: formatArea(places) }),
    createSvg("path", { class: "line", d: places.line }),
    ...drawMarks(places, options),
  );
}

const RIGHT_EDGE = CHART_PAPER.width - CHART_PAPER.right;
const BOTTOM_EDGE = CHART_PAPER.height - CHART_PAPER.bottom;

function drawAxes({ rows, columns }: Layout, { format }: ChartOptions): SVGElement[] {
  return [
    ...rows.flatMap(({ at, value }) => [
      createSvg("line", { class: "grid", x1: CHART_PAPER.left, x2: RIGHT_EDGE, y1: at, y2: at }),
      createSvg(
        "text",
        { class: "tick", x: CHART_PAPER.left - 8, y: at + 4, "text-anchor": "end" },
        format(value),
      ),
    ]),
    ...columns.map(({ at, value }) =>
      createSvg(
        "text",
        { class: "tick", x: at, y: BOTTOM_EDGE + 16, "text-anchor": "middle" },
        String(value),
      ),
    ),
    createSvg(
      "text",
      { class: "tick", x: RIGHT_EDGE, y: CHART_PAPER.height - 3, "text-anchor": "end" },
      "epoch",
    ),
  ];
}

/** Draw a level at the height of its value. */
function drawLevel({ rows }: Layout, { value, name, side }: Level): SVGElement[] {
  const top = rows.at(-1);
  if (top === undefined) return [];
  const y = BOTTOM_EDGE + (top.at - BOTTOM_EDGE) * (value / top.value);
  const [x, anchor] = side === "left" ? [CHART_PAPER.left + 4, "start"] : [RIGHT_EDGE, "end"];
  return [
    createSvg("line", { class: "level", x1: CHART_PAPER.left, x2: RIGHT_EDGE, y1: y, y2: y }),
    createSvg("text", { class: "tick", x, y: y - 5, "text-anchor": anchor }, name),
  ];
}

function formatArea({ marks, line }: Layout): string {
  const [first, last] = [marks[0], marks.at(-1)];
  return first === undefined || last === undefined
    ? ""
    : `${line}L${last.x} ${BOTTOM_EDGE}L${first.x} ${BOTTOM_EDGE}Z`;
}

function drawMarks(places: Layout, { format }: ChartOptions): SVGElement[] {
  const last = places.marks.at(-1);
  if (last === undefined) return [];
  return [
    ...places.marks.map(({ x, y }) => createSvg("circle", { class: "mark", cx: x, cy: y, r: 2 })),
    createSvg("circle", { class: "last", cx: last.x, cy: last.y, r: 4.5 }),
    // The last value is written above the chart.
    createSvg(
      "text",
      { class: "value", x: RIGHT_EDGE, y: CHART_PAPER.top - 9, "text-anchor": "end" },
      format(last.value),
    ),
  ];
}

/** The value of one epoch. */
export interface EpochValue {
  epoch: number;
  value: number;
}

/** A labelled position on an axis. */
export interface Tick {
  at: number;
  value: number;
}

/** Positions of a chart's parts, in the units of its view box. */
export interface Layout {
  marks: readonly { x: number; y: number; epoch: number; value: number }[];
  /** The curve, as data of an SVG path. */
  line: string;
  rows: readonly Tick[];
  columns: readonly Tick[];
}

/** The size of a chart and its margins, in the units of its view box. */
export interface Paper {
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/**
 * Minimum length of the epoch axis, so that a curve that has just begun does not fill the chart.
 */
const MIN_EPOCHS_SHOWN = 4;

/**
 * Compute the layout of values over epochs. The value axis begins at 0 and ends at a round number.
 */
export function computeLayout(values: readonly EpochValue[], paper: Paper, minTop: number): Layout {
  const epochs = values.map(({ epoch }) => epoch);
  const first = Math.min(...epochs);
  const last = Math.max(...epochs, first + MIN_EPOCHS_SHOWN);
  const step = roundStep(Math.max(minTop, ...values.map(({ value }) => value)) / 4);
  const top = step * Math.ceil(Math.max(minTop, ...values.map(({ value }) => value)) / step - 1e-9);
  const x = (epoch: number) =>
    roundToHundredths(
      interpolate(paper.left, paper.width - paper.right, (epoch - first) / (last - first)),
    );
  const y = (value: number) =>
    roundToHundredths(interpolate(paper.height - paper.bottom, paper.top, value / top));
  const marks = values.map(({ epoch, value }) => ({ x: x(epoch), y: y(value), epoch, value }));
  return {
    marks,
    line: marks.map((mark, at) => `${at === 0 ? "M" : "L"}${mark.x} ${mark.y}`).join(""),
    rows: listSteps(0, top, step).map((value) => ({ at: y(value), value })),
    columns: listEpochTicks(first, last).map((value) => ({ at: x(value), value })),
  };
}

/** Return the smallest of 1, 2, 5 times a power of ten that is at least `min`. */
function roundStep(min: number): number {
  const power = 10 ** Math.floor(Math.log10(min));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= min * (1 - 1e-9)) ?? 10;
  return step * power;
}

/** Return at most six whole epochs for the axis, including the first one. */
function listEpochTicks(first: number, last: number): number[] {
  return listSteps(first, last, Math.max(1, roundStep((last - first) / 5)));
}

function listSteps(first: number, last: number, step: number): number[] {
  const count = Math.floor((last - first) / step + 1e-9) + 1;
  return Array.from({ length: count }, (_, at) => first + at * step);
}

function interpolate(from: number, to: number, share: number): number {
  return from + (to - from) * share;
}

function roundToHundredths(value: number): number {
  return Math.round(value * 100) / 100;
}
