/** A field for the lifetime limit that says in epochs what its number means. */
import { type Amount, epochsWithin } from "sottovoce-client";
import { amountText, atMostText, epochsText } from "../amounts.js";
import { h, say } from "../dom.js";
import type { Offer } from "../messages.js";

/** Where the field stands and what it counts from. */
export interface LimitOptions {
  id: string;
  value: number;
  gone: Amount;
  offer: Counted;
}

/** What epochs are counted by. */
export type Counted = Pick<Offer, "turns"> & {
  terms: Pick<Offer["terms"], "epsilon" | "reports">;
};

/** The field, and its value when that is one. */
export interface LimitField {
  element: HTMLElement;
  /** Null, with the field marked, if there is no number above 0 in it. */
  read(): number | null;
}

/** Says at every change what the number means. */
export function limitField({ id, value, gone, offer }: LimitOptions): LimitField {
  const meaning = h("p", { id: `${id}-meaning`, class: "note", "aria-live": "polite" });
  const input = h("input", {
    id,
    type: "number",
    inputmode: "decimal",
    min: 0,
    step: "any",
    required: true,
    value: String(value),
    "aria-describedby": meaning.id,
    oninput: () => tell(),
  });
  const tell = () => {
    input.removeAttribute("aria-invalid");
    say(meaning, meaningText(input.valueAsNumber, gone, offer));
  };
  tell();
  return {
    element: h(
      "div",
      { class: "field" },
      h("label", { for: id }, "Lifetime limit"),
      input,
      meaning,
    ),
    read: () => checked(input),
  };
}

function checked(input: HTMLInputElement): number | null {
  const value = input.valueAsNumber;
  if (Number.isFinite(value) && value > 0) return value;
  input.setAttribute("aria-invalid", "true");
  input.focus();
  return null;
}

/** What a limit comes to at these terms, after all that is gone already. */
export function meaningText(limit: number, gone: Amount, { terms, turns }: Counted): string {
  if (!(Number.isFinite(limit) && limit > 0)) return "Give a number above 0.";
  if (turns === 0) return "The terms allow no more epochs, whatever the limit.";
  const epochs = epochsWithin(limit, gone, terms, turns);
  const more = gone > 0n ? " more" : "";
  const cost = atMostText(terms.epsilon * terms.reports);
  const each = `${amountText(terms.reports)} × ${terms.epsilon} = ${cost}`;
  if (epochs === 0) return `Not enough for one${more} epoch: each takes ${each}.`;
  const epochsMore = epochsText(epochs).replace(" ", `${more} `);
  return `Enough for ${epochsMore}: each takes ${each}. Then reporting stops by itself.`;
}
