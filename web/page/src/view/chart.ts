/** A line over epochs, drawn by hand: axes, a line to compare with, words for those who listen. */
import { type Layout, layout, newestAt, type Paper, type Value } from "../curve.js";
import { svg } from "../dom.js";

const PAPER: Paper = { width: 400, height: 240, left: 46, right: 16, top: 30, bottom: 36 };

/** What a chart shows. */
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

/** The drawing. */
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
  const text = write(last.value);
  const { x, y } = newestAt(places, text, PAPER);
  return [
    ...places.marks.map(({ x, y }) => svg("circle", { class: "mark", cx: x, cy: y, r: 2 })),
    svg("circle", { class: "last", cx: last.x, cy: last.y, r: 4.5 }),
    svg("text", { class: "value", x, y, "text-anchor": "end" }, text),
  ];
}
