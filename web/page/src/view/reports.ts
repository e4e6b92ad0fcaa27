import type { LeftDevice, Told } from "sottovoce-client";
import { type Child, h, say, show } from "../dom.js";
import { amountText, hex } from "../words.js";

const HEADER = 56;
const SEALED = 52;
const SHOWN_AT_FIRST = 100;

/** Every report of the last batch, as it was made and as it left. */
export function reportsView() {
  const none = h("p", { class: "empty" }, "There is no report here.");
  const rows = h("tbody", {});
  const size = h("p", { id: "batch-size", class: "note" });
  const all = h("button", { type: "button", class: "button small", hidden: true });
  const region = h(
    "div",
    { class: "scroll", role: "region", "aria-labelledby": "reports-caption", tabindex: 0 },
    table(rows),
  );
  const shown = h("div", { hidden: true }, size, region, all, ...explained());
  const fill = (batch: LeftDevice) => {
    rows.replaceChildren(...reportRows(batch, SHOWN_AT_FIRST));
    say(all, `Show all ${amountText(batch.told.length)}`);
    show(all, batch.told.length > SHOWN_AT_FIRST);
    all.onclick = () => {
      rows.replaceChildren(...reportRows(batch, batch.told.length));
      show(all, false);
    };
  };
  const empty = () => {
    for (const part of [rows, size]) part.replaceChildren();
    all.onclick = null;
  };
  let filled = "";
  return {
    element: h("div", { id: "batch" }, h("h3", {}, "The last batch, bit by bit"), none, shown),
    showBatch(batch: LeftDevice | null) {
      show(none, batch === null);
      show(shown, batch !== null);
      if (batch === null) empty();
      else if (batch.hash !== filled) fill(batch);
      filled = batch?.hash ?? "";
      if (batch !== null) say(size, sizeText(batch));
    },
  };
}

function table(rows: HTMLElement): HTMLElement {
  const group = (name: string, kind: string | null, colspan = 1) =>
    h("th", { scope: "colgroup", class: kind, colspan }, name);
  const named = (name: Child, kind: string | null = null) =>
    h("th", { scope: "col", class: kind }, name);
  const groups = [
    h("td"),
    group("In the envelope", null, 2),
    group("Leaves", "leaves"),
    group("Stays here", "stays"),
  ];
  const names = [
    named(h("span", { class: "visually-hidden" }, "Number")),
    named("Direction"),
    named("Sign"),
    named("4 bytes → 52", "leaves"),
    named("Coin", "stays"),
  ];
  return h(
    "table",
    { id: "reports" },
    h(
      "caption",
      { id: "reports-caption", class: "visually-hidden" },
      "Every report of the last batch",
    ),
    h("thead", {}, h("tr", {}, ...groups), h("tr", {}, ...names)),
    rows,
  );
}

function reportRows({ told, bytes }: LeftDevice, most: number): HTMLElement[] {
  return told.slice(0, most).map((each, at) => row(each, at, hex(sealedAt(bytes, at))));
}

/** The sealed report at a place of an encoded batch. */
function sealedAt(bytes: Uint8Array, at: number): Uint8Array {
  return bytes.subarray(HEADER + at * SEALED, HEADER + (at + 1) * SEALED);
}

function row(told: Told, at: number, sealed: string): HTMLElement {
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
    h("td", {}, ...direction(told)),
    h("td", { class: "sign" }, told.bit === 1 ? "+" : "−"),
    h("td", { class: "leaves" }, button),
    h("td", { class: `stays ${told.coin}` }, told.coin),
  );
  button.addEventListener("click", () => unfold(button, element, whole));
  return element;
}

function direction({ row, column }: Told): Child[] {
  const whole = (text: string) => h("span", { class: "whole-word" }, text);
  return [whole(`row ${row},`), " ", whole(`factor ${column}`)];
}

/** All 52 bytes in a row of their own, or that row away again. */
function unfold(button: HTMLElement, row: HTMLElement, whole: HTMLElement): void {
  const open = !whole.isConnected;
  if (open) row.after(whole);
  else whole.remove();
  button.setAttribute("aria-expanded", String(open));
}

/** What became of it, and what it weighs. */
function sizeText({ epoch, state, told, bytes }: LeftDevice): string {
  const became = {
    charged: "It waits to be sent.",
    sent: "It has left.",
    dropped: "It came too late and was not counted.",
  }[state];
  return (
    `Epoch ${epoch}: ${amountText(bytes.length)} bytes, which are ${amountText(told.length)} × ` +
    `${SEALED} sealed and ${HEADER} that say which epoch they are for. ${became}`
  );
}

function explained(): HTMLElement[] {
  return [
    h(
      "p",
      { class: "note" },
      "A direction is one of many public ways in which the model could be moved; the sign says which " +
        "way. The envelope is opened by the server, after the proxy has mixed everybody's.",
    ),
    h(
      "p",
      { class: "note" },
      "The coin is known to you alone. ",
      h("b", {}, "kept"),
      ": it says what your films gave. ",
      h("b", {}, "turned"),
      ": the opposite. ",
      h("b", {}, "random"),
      ": drawn by chance, it says nothing of you.",
    ),
  ];
}
