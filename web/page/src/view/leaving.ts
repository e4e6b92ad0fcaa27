/**
 * What leaves this device: the switch, the budget, every report, and the way out.
 */

import { type Amount, epochsWithin } from "sottovoce-client";
import { type Acting, button, h, say, section, show, type View } from "../dom.js";
import type { State } from "../state.js";
import { amountText, atMostText, epochsText, LIMIT_SENTENCE } from "../words.js";
import { asked, askForConsent, type Counted, limitField, type Question } from "./consent.js";
import { reportsView } from "./reports.js";

/** What the section can do, and when. */
export interface LeavingOptions extends Acting {
  /** Taking part begins: now it matters that the browser keeps the ledger. */
  begun(): void;
}

export function leavingView(options: LeavingOptions) {
  const toggle = switchView(options);
  const line = h("p", { id: "report-state", class: "state", role: "status" });
  const budget = budgetView(options);
  const reports = reportsView();
  return {
    element: section(
      "leaving",
      "What leaves this device",
      "Nothing, until you say so. Then only what is listed here.",
      toggle.element,
      line,
      budget.element,
      reports.element,
      forgetButton(options),
    ),
    update(state: State) {
      toggle.update(state);
      say(line, state.line);
      budget.update(state);
    },
    showBatch: reports.showBatch,
  };
}

function switchView({ ask, begun }: LeavingOptions): View {
  let now: State | null = null;
  const change = async () => {
    const { agreed, takingPart, offer: shown, gone } = now ?? { offer: null };
    if (!shown) return; // another one may come while this is read
    if (agreed) return ask((session) => session.takePart(!takingPart));
    const limit = await askForConsent(shown, gone, ask);
    if (limit === null) return;
    begun();
    await ask((session) => session.agree(shown.terms, limit));
  };
  const attributes = { role: "switch", class: "switch", "aria-checked": "false", disabled: true };
  const element = button({ id: "take-part", ...attributes }, "Take part", change);
  return {
    element,
    update(state) {
      now = state;
      element.setAttribute("aria-checked", String(state.agreed && state.takingPart));
      element.disabled = state.manifest === null;
    },
  };
}

function forgetButton({ ask, announce }: LeavingOptions): HTMLElement {
  const forget = async () => {
    if (!(await asked(forgetting()))) return;
    await ask((session) => session.forget());
    announce("Everything but the ledger is forgotten.");
  };
  const attributes = { id: "forget", class: "button grave wide" };
  return button(attributes, "Forget everything on this device", forget);
}

function forgetting(): Question {
  return {
    id: "forget-dialog",
    title: "Forget everything?",
    content: [
      h(
        "p",
        {},
        h("strong", {}, "Goes: "),
        "your films, a batch that waits, the list of reports above, and the model. Taking part is switched off.",
      ),
      h(
        "p",
        {},
        h("strong", {}, "Stays: "),
        "the ledger, which is how much you have spent and in which epochs. It names no film. Reports that left cannot be called back, so what they cost must not be forgotten either: else it could be spent twice.",
      ),
      h("p", {}, "The page then fetches the public model again, as for anybody who opens it."),
    ],
    yes: "Forget everything",
    no: "Keep it",
    grave: true,
  };
}

/** What was spent of the limit, which can be changed behind a fold. */
function budgetView(options: Acting): View {
  const text = h("p", { id: "budget-text", class: "note" });
  const meter = h("div", {
    id: "budget",
    class: "meter",
    role: "meter",
    "aria-label": "Spent of the limit",
    "aria-valuemin": 0,
  });
  const change = limitChange(options);
  const meaning = h("p", { class: "note" }, LIMIT_SENTENCE);
  const element = h("div", {}, h("h3", {}, "Limit"), meter, text, meaning, change.element);
  return {
    element,
    update(state) {
      const { agreed, spent, limit, offer, epochs } = state;
      show(element, agreed);
      if (!agreed || offer === null) return;
      fillMeter(meter, spent, limit);
      say(text, `${budgetText(state, offer)} ${lifetimeText(epochs, offer.terms)}`);
      change.update(state);
    },
  };
}

function fillMeter(meter: HTMLElement, spent: number, limit: number): void {
  const share = Math.min(1, spent / limit);
  meter.style.setProperty("--share", String(share));
  meter.setAttribute("aria-valuemax", String(Math.max(limit, spent)));
  meter.setAttribute("aria-valuenow", String(spent));
  meter.setAttribute("aria-valuetext", `${atMostText(spent)} of ${atMostText(limit)}`);
  meter.classList.toggle("full", share >= 1);
}

/** What was spent, and how long the rest lasts. */
export function budgetText({ spent, gone, limit }: Budget, offer: Counted): string {
  const said = `Spent ${atMostText(spent)} of ${atMostText(limit)}`;
  if (offer.turns === 0) return `${said}.`; // whatever is left, the terms allow no more
  const left = epochsWithin(limit, gone, offer.terms, offer.turns);
  const more = epochsText(left).replace(" ", " more ");
  return `${said}: ${left === 0 ? "not enough for another epoch" : `enough for ${more}`}.`;
}

type Budget = Pick<State, "spent" | "gone" | "limit">;

/** The device's own count, against what the terms allow. */
export function lifetimeText(epochs: number, terms: { epochs: number }): string {
  return `This device took part in ${amountText(epochs)} of ${epochsText(terms.epochs)} that the terms allow.`;
}

/** The field is left alone while it is open: nothing may change under busy hands. */
function limitChange({ ask, announce }: Acting): View {
  const summary = h("summary", {}, "Change the limit");
  const form = h("div", {});
  const element = h("details", { id: "limit-change" }, summary, form);
  const set = async (limit: number) => {
    await ask((session) => session.setLimit(limit));
    element.open = false;
    summary.focus();
    announce(`The limit is ${atMostText(limit)} now.`);
  };
  let shown = "";
  return {
    element,
    update({ limit, gone, offer }) {
      const { epsilon, reports } = offer?.terms ?? {};
      const now = `${limit} ${gone} ${epsilon} ${reports} ${offer?.turns}`;
      if (offer === null || now === shown || element.open) return;
      shown = now;
      form.replaceChildren(...limitForm({ value: limit, gone, offer }, set));
    },
  };
}

function limitForm(
  from: { value: number; gone: Amount; offer: Counted },
  set: (limit: number) => Promise<void>,
): Node[] {
  const field = limitField({ id: "limit", ...from });
  const save = () => {
    const limit = field.read();
    if (limit !== null) void set(limit);
  };
  return [field.element, button({ id: "limit-save" }, "Set the limit", save)];
}
