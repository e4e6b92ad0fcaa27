/** Shows every report of the last batch, in readable form and as sealed bytes. */

import type { LeftDevice, ReadableReport } from "sottovoce-client";
import { type Child, h, setText, setVisible } from "../dom.js";
import { splitTitle } from "../titles.js";
import { formatAmount, toHex } from "../words.js";
import { createButton, createDetails } from "./parts.js";

const HEADER_BYTES = 56;
const SEALED_REPORT_BYTES = 52;
const FIRST_ROWS = 100;
/** Number of batches of this visit that the table keeps. */
const MAX_BATCHES = 5;

/** Create the view of the batches of this visit, newest first, and of the last one before it. */
export function createReportsView() {
  const emptyNote = h("p", { class: "empty" }, "There is no report here.");
  const size = h("p", { id: "batch-size", class: "note" });
  const names = h("tr", {});
  const table = createTable(names);
  const region = h(
    "div",
    { class: "scroll", role: "region", "aria-labelledby": "reports-caption", tabindex: 0 },
    table,
  );
  const explanation = h("div", {});
  let batches: readonly LeftDevice[] = [];
  const showRows = (maxRows: number) => {
    const bodies = batches.map((batch) =>
      h("tbody", {}, batches.length > 1 && createGroupRow(batch), ...createRows(batch, maxRows)),
    );
    for (const body of [...table.tBodies]) body.remove();
    table.append(...bodies);
    const longest = Math.max(0, ...batches.map(({ reports }) => reports.length));
    setVisible(showAllButton, longest > maxRows);
  };
  const showAllButton = createButton({ hidden: true }, "Show all", () =>
    showRows(Number.POSITIVE_INFINITY),
  );
  const content = h("div", { hidden: true }, size, region, showAllButton, explanation);
  return {
    element: createDetails("batch", "Your reports, byte by byte", emptyNote, content),
    showBatch(batch: LeftDevice | null) {
      setVisible(emptyNote, batch === null);
      setVisible(content, batch !== null);
      const isSame = batch !== null && batch.hash === batches[0]?.hash;
      batches = batch === null ? [] : isSame ? batches : addBatch(batches, batch);
      if (!isSame) showRows(FIRST_ROWS);
      names.replaceChildren(...(batch === null ? [] : createColumnHeaders(batch)));
      explanation.replaceChildren(...(batch === null ? [] : createExplanation(batch)));
      setText(size, batch === null ? "" : formatSize(batch));
    },
  };
}

/** Add a batch before earlier ones with the same columns. */
function addBatch(batches: readonly LeftDevice[], batch: LeftDevice): readonly LeftDevice[] {
  const hasNames = batch.titles !== null;
  const earlier = batches.filter(({ titles }) => (titles !== null) === hasNames);
  return [batch, ...earlier].slice(0, MAX_BATCHES);
}

/** Create the row that names the epoch of a batch. */
function createGroupRow({ epoch }: LeftDevice): HTMLElement {
  const header = h("th", { scope: "rowgroup", colspan: 5 }, `Epoch ${epoch}`);
  return h("tr", { class: "group" }, header);
}

function createTable(names: HTMLElement): HTMLTableElement {
  const createGroupHeader = (name: string, kind: string | null, colspan = 1) =>
    h("th", { scope: "colgroup", class: kind, colspan }, name);
  const groups = [
    h("td"),
    createGroupHeader("In the envelope", null, 2),
    createGroupHeader("Leaves", "leaves"),
    createGroupHeader("Stays here", "stays"),
  ];
  return h(
    "table",
    { id: "reports" },
    h(
      "caption",
      { id: "reports-caption", class: "visually-hidden" },
      "Every report of the last batches",
    ),
    h("thead", {}, h("tr", {}, ...groups), names),
  );
}

function createColumnHeaders({ titles }: LeftDevice): HTMLElement[] {
  const createHeader = (name: Child, kind: string | null = null) =>
    h("th", { scope: "col", class: kind }, name);
  return [
    createHeader(h("span", { class: "visually-hidden" }, "Number")),
    createHeader(titles === null ? "Direction" : "Name"),
    createHeader(titles === null ? "Sign" : "Number"),
    createHeader("4 bytes → 52", "leaves"),
    createHeader("Coin", "stays"),
  ];
}

function createRows({ reports, titles, bytes }: LeftDevice, maxRows: number): HTMLElement[] {
  return reports.slice(0, maxRows).map((report, at) => {
    const cells =
      titles === null ? createDirectionCells(report) : createNameCells(report, titles[at] ?? null);
    return createRow(report, at, cells, toHex(getSealed(bytes, at)));
  });
}

/** Return the sealed report at an index of an encoded batch. */
function getSealed(bytes: Uint8Array, at: number): Uint8Array {
  return bytes.subarray(
    HEADER_BYTES + at * SEALED_REPORT_BYTES,
    HEADER_BYTES + (at + 1) * SEALED_REPORT_BYTES,
  );
}

function createRow(
  report: ReadableReport,
  at: number,
  cells: HTMLElement[],
  sealed: string,
): HTMLElement {
  const whole = h("tr", { class: "whole" }, h("td", { colspan: 5 }, h("code", {}, sealed)));
  const button = h(
    "button",
    { type: "button", class: "sealed", "aria-expanded": "false" },
    h("code", {}, `${sealed.slice(0, 16)}…`),
  );
  const element = h(
    "tr",
    {},
    h("th", { scope: "row" }, String(at + 1)),
    ...cells,
    h("td", { class: "leaves" }, button),
    h("td", { class: `stays ${report.coin}` }, report.coin),
  );
  button.addEventListener("click", () => toggleBytes(button, element, whole));
  return element;
}

function createDirectionCells({ row, column, bit }: ReadableReport): HTMLElement[] {
  const createWord = (text: string) => h("span", { class: "whole-word" }, text);
  return [
    h("td", {}, createWord(`row ${row},`), " ", createWord(`factor ${column}`)),
    h("td", { class: "sign" }, bit === 1 ? "+" : "−"),
  ];
}

function createNameCells({ row }: ReadableReport, title: string | null): HTMLElement[] {
  return [h("td", {}, formatName(row, title)), h("td", { class: "sign" }, String(row + 1))];
}

/** Format the name in a report: the title of a film, if there is one. */
export function formatName(row: number, title: string | null): string {
  if (title === null) return row < 0 ? "no film" : "a film that may come later";
  const { name, year } = splitTitle(title);
  return year === null ? name : `${name} (${year})`;
}

/** Show all 52 bytes of a sealed report in an additional row, or remove that row. */
function toggleBytes(button: HTMLElement, row: HTMLElement, whole: HTMLElement): void {
  const open = !whole.isConnected;
  if (open) row.after(whole);
  else whole.remove();
  button.setAttribute("aria-expanded", String(open));
}

/** Describe the state and the size of a batch. */
function formatSize({ epoch, state, reports, bytes }: LeftDevice): string {
  const stateSentence = {
    charged: "It waits to be sent.",
    sent: "It has left.",
    dropped: "It came too late: as far as this device knows it was not counted.",
  }[state];
  return (
    `Epoch ${epoch}: ${formatAmount(bytes.length)} bytes, which are ${formatAmount(reports.length)} × ` +
    `${SEALED_REPORT_BYTES} sealed and ${HEADER_BYTES} that say which epoch they are for. ${stateSentence}`
  );
}

function createExplanation({ titles }: LeftDevice): HTMLElement[] {
  const [content, meaningOfKept] =
    titles === null
      ? [
          "A direction is one of many public ways in which the model could be moved; the sign says " +
            "which way.",
          ": it says what your films gave. ",
        ]
      : [
          "A report names a film, no film, or a film that the catalogue may still get.",
          ": it names one of your films. Whoever knows that a report is yours may take it for that. ",
        ];
  const turned = [h("b", {}, "turned"), ": the opposite. "];
  return [
    h(
      "p",
      { class: "note" },
      `${content} The envelope is opened by the server, after the proxy has mixed everybody's.`,
    ),
    h(
      "p",
      { class: "note" },
      "The coin is known to you alone. ",
      h("b", {}, "kept"),
      meaningOfKept,
      ...(titles === null ? turned : []),
      h("b", {}, "random"),
      ": drawn by chance, it says nothing of you.",
    ),
  ];
}
