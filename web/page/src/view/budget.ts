/** What was spent of a lifetime's budget, and the limit, which can be changed. */
import { type Amount, epochsWithin } from "sottovoce-client";
import { amountText, atMostText, epochsText } from "../amounts.js";
import { h, say, show } from "../dom.js";
import type { Ask, State } from "../messages.js";
import { BUDGET_SENTENCE } from "../odds.js";
import { type Counted, limitField } from "./limit.js";
import type { View } from "./view.js";

/** What the part can do beside asking. */
export interface BudgetOptions {
  ask: Ask;
  /** Tells a screen reader what an action did. */
  announce(text: string): void;
}

/** A meter, a sentence, and a field behind a fold. */
export function budgetView(options: BudgetOptions): View {
  const text = h("p", { id: "budget-text", class: "note" });
  const meter = h("div", {
    id: "budget",
    class: "meter",
    role: "meter",
    "aria-label": "Budget spent",
    "aria-valuemin": 0,
  });
  const change = limitChange(options);
  const meaning = h("p", { class: "note" }, BUDGET_SENTENCE);
  const element = h("div", {}, h("h3", {}, "Budget"), meter, text, meaning, change.element);
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
function limitChange({ ask, announce }: BudgetOptions): View {
  const summary = h("summary", {}, "Change the limit");
  const form = h("div", {});
  const element = h("details", { id: "limit-change" }, summary, form);
  const set = async (limit: number) => {
    await ask({ kind: "setLimit", limit });
    element.open = false;
    summary.focus();
    announce(`The lifetime limit is ${atMostText(limit)} now.`);
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
  const button = h(
    "button",
    { type: "button", id: "limit-save", class: "button small", onclick: save },
    "Set the limit",
  );
  return [field.element, button];
}
