/** An input field for the limit, with an explanation of its value. */

import type { Amount, Offer } from "sottovoce-client";
import { countAffordableEpochs } from "sottovoce-client";
import { h, setText } from "../dom.js";
import { formatAmount, formatBound, formatEpochs } from "../words.js";

/** The options of a limit field. */
export interface LimitOptions {
  id: string;
  /** The limit that is displayed first. */
  value: number;
  /** Exact amount of epsilon that is spent already. */
  spentAmount: Amount;
  offer: CountedOffer;
  /** Receives every valid limit. */
  onLimit?: (limit: number) => Promise<void>;
}

/** The part of an offer that is needed to count epochs. */
export type CountedOffer = Pick<Offer, "turns"> & {
  terms: Pick<Offer["terms"], "epsilon" | "reports">;
};

/** Create a field for the limit. It explains its value after every change. */
export function createLimitField({ id, value, spentAmount, offer, onLimit }: LimitOptions) {
  const words = explainLimit(value, spentAmount, offer);
  const meaning = h("p", { id: `${id}-meaning`, class: "note", "aria-live": "polite" }, words);
  const input = h("input", {
    id,
    type: "number",
    inputmode: "decimal",
    min: 0,
    step: "any",
    required: true,
    value: String(value),
    "aria-describedby": meaning.id,
    oninput: () => handleInput(),
  });
  const handleInput = () => {
    const limit = input.valueAsNumber;
    input.removeAttribute("aria-invalid");
    setText(meaning, explainLimit(limit, spentAmount, offer));
    if (limit > 0) void onLimit?.(limit);
  };
  return {
    element: h(
      "div",
      { class: "field" },
      h("label", { for: id }, "Limit of this device, in epsilon"),
      input,
      meaning,
    ),
    /** Return the limit. If the field has no number above 0, mark it and return null. */
    read: () => checkInput(input),
  };
}

function checkInput(input: HTMLInputElement): number | null {
  const value = input.valueAsNumber;
  if (Number.isFinite(value) && value > 0) return value;
  input.setAttribute("aria-invalid", "true");
  input.closest("details")?.setAttribute("open", "");
  input.focus();
  return null;
}

/**
 * Explain for how many epochs a limit is enough under these terms, after everything that was spent.
 */
export function explainLimit(
  limit: number,
  spentAmount: Amount,
  { terms, turns }: CountedOffer,
): string {
  if (!(Number.isFinite(limit) && limit > 0)) return "Give a number above 0.";
  if (turns === 0) return "The terms allow no more epochs, whatever the limit.";
  const epochs = countAffordableEpochs(limit, spentAmount, terms, turns);
  const more = spentAmount > 0n ? " more" : "";
  const cost = formatBound(terms.epsilon * terms.reports);
  const epochCost = `${formatAmount(terms.reports)} × ${terms.epsilon} = ${cost}`;
  if (epochs === 0) return `Not enough for one${more} epoch: each takes ${epochCost}.`;
  const epochsMore = formatEpochs(epochs).replace(" ", `${more} `);
  return `Enough for ${epochsMore}: each takes ${epochCost}. Then reporting stops by itself.`;
}
