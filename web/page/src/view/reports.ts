/** Shows every report of the last batch, in readable form and as sealed bytes. */

import type { LeftDevice, ReadableReport } from "sottovoce-client";
import { type Child, h, setText, setVisible } from "../dom.js";
import { splitTitle } from "../titles.js";
import { formatAmount, toHex } from "../words.js";

const HEADER_BYTES = 56;
const SEALED_REPORT_BYTES = 52;
const FIRST_ROWS = 100;

/** Create the view of the last batch. */
export function createReportsView() {
  const emptyNote = h("p", { class: "empty" }, "There is no report here.");
  const rows = h("tbody", {});
  const size = h("p", { id: "batch-size", class: "note" });
  const showAllButton = h("button", { type: "button", class: "button small", hidden: true });
  const names = h("tr", {});
  const region = h(
    "div",
    { class: "scroll", role: "region", "aria-labelledby": "reports-caption", tabindex: 0 },
    createTable(names, rows),
  );
  const explanation = h("div", {});
  const content = h("div", { hidden: true }, size, region, showAllButton, explanation);
  const fill = (batch: LeftDevice) => {
    names.replaceChildren(...createColumnHeaders(batch));
    explanation.replaceChildren(...createExplanation(batch));
    rows.replaceChildren(...createRows(batch, FIRST_ROWS));
    setText(showAllButton, `Show all ${formatAmount(batch.reports.length)}`);
    setVisible(showAllButton, batch.reports.length > FIRST_ROWS);
    showAllButton.onclick = () => {
      rows.replaceChildren(...createRows(batch, batch.reports.length));
      setVisible(showAllButton, false);
    };
  };
  const clear = () => {
    for (const part of [rows, names, explanation, size]) part.replaceChildren();
    showAllButton.onclick = null;
  };
  let displayedHash = "";
  return {
    element: h(
      "div",
      { id: "batch" },
      h("h3", {}, "The last batch, bit by bit"),
      emptyNote,
      content,
    ),
    showBatch(batch: LeftDevice | null) {
      setVisible(emptyNote, batch === null);
      setVisible(content, batch !== null);
      if (batch === null) clear();
      else if (batch.hash !== displayedHash) fill(batch);
      displayedHash = batch?.hash ?? "";
      if (batch !== null) setText(size, formatSize(batch));
    },
  };
}

function createTable(names: HTMLElement, rows: HTMLElement): HTMLElement {
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
      "Every report of the last batch",
    ),
    h("thead", {}, h("tr", {}, ...groups), names),
    rows,
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
          ": it names the film that you added last. Whoever knows that a report is yours may take it for that. ",
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
