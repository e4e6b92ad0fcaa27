/** A field for the lifetime limit that says in epochs what its number means. */
import { amountText, atMostText, epochsText } from "../amounts.js";
import { h, say } from "../dom.js";
import { epochsWithin, type Price } from "../limits.js";

/** Where the field stands and what it counts from. */
export interface LimitOptions {
  id: string;
  value: number;
  spent: number;
  price: Price;
}

/** The field, and its value when that is one. */
export interface LimitField {
  element: HTMLElement;
  /** Null, with the field marked, if there is no number above 0 in it. */
  read(): number | null;
}

/** Says at every change what the number means. */
export function limitField({ id, value, spent, price }: LimitOptions): LimitField {
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
    say(meaning, meaningText(input.valueAsNumber, spent, price));
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

/** What a limit comes to at present terms. */
export function meaningText(limit: number, spent: number, price: Price): string {
  if (!(Number.isFinite(limit) && limit > 0)) return "Give a number above 0.";
  const epochs = epochsWithin(limit, spent, price);
  const more = spent > 0 ? " more" : "";
  const cost = atMostText(price.epsilon * price.reports);
  const each = `${amountText(price.reports)} × ${price.epsilon} = ${cost}`;
  if (epochs === 0) return `Not enough for one${more} epoch: each takes ${each}.`;
  const epochsMore = epochsText(epochs).replace(" ", `${more} `);
  return `Enough for ${epochsMore}: each takes ${each}. Then reporting stops by itself.`;
}
