/** From numbers to places on paper: everything about the chart that is not drawing. */

/** One value for one epoch. */
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

/** The paper. */
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

/** A letter of the newest value at its widest, and the room between its foot and the line. */
const LETTER = 12;
const CLEAR = 9;

/** Where the newest value ends and stands: above whatever of the line runs below it. */
export function newestAt(
  { marks }: Pick<Layout, "marks">,
  text: string,
  paper: Paper,
): { x: number; y: number } {
  const width = text.length * LETTER;
  const middle = marks.at(-1)?.x ?? 0;
  const x = Math.max(paper.left + width, Math.min(middle + width / 2, paper.width - 2));
  return { x, y: rounded(highest(marks, x - width, x) - CLEAR) };
}

/** The least y of a line between two places. */
function highest(marks: Layout["marks"], from: number, to: number): number {
  const heights = marks.map(({ x, y }, at) => {
    const next = marks[at + 1] ?? { x, y };
    if (next.x < from || x > to) return Number.POSITIVE_INFINITY;
    const heightAt = (place: number) =>
      along(y, next.y, next.x === x ? 0 : (place - x) / (next.x - x));
    return Math.min(heightAt(Math.max(x, from)), heightAt(Math.min(next.x, to)));
  });
  return Math.min(...heights);
}

/** The least of 1, 2, 5 times a power of ten that is not below. */
export function roundStep(least: number): number {
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
