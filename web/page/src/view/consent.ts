/**
 * Questions that must be answered before anything goes on: what is accepted before anything leaves, asked once
 * and in plain words.
 */

import type { Offer } from "sottovoce-client";
import { type Amount, epochsWithin, limitFor } from "sottovoce-client";
import { button, h, say } from "../dom.js";
import type { Ask } from "../session.js";
import type { State } from "../state.js";
import { termsInNumbers, termsInWords } from "../terms.js";
import { amountText, atMostText, epochsText } from "../words.js";
import { epsilonFigure } from "./epsilon.js";

/** So many epochs are offered to begin with. */
const DEFAULT_EPOCHS = 10;

/** The limit that was chosen with a yes, else null. */
export async function askForConsent(offer: Offer, gone: Amount, ask: Ask): Promise<number | null> {
  const value = limitFor(Math.min(DEFAULT_EPOCHS, offer.turns), gone, offer.terms);
  const short = h("div", { id: "terms-short", class: "short", "aria-live": "polite" });
  let last = value;
  /** The limit whose sentences are displayed: a yes counts for no other. */
  let displayed: number | null = null;
  const tell = async (limit: number) => {
    last = limit;
    displayed = null;
    const said = await sentences(offer, limit, ask);
    if (limit !== last) return;
    short.replaceChildren(...said);
    displayed = limit;
  };
  await tell(value);
  const field = limitField({ id: "terms-limit", value, gone, offer, tell });
  const yes = await asked({
    id: "terms-dialog",
    title: "Take part?",
    content: [short, detailsOf("terms", offer, field.element)],
    yes: "Take part",
    no: "Not now",
    valid: () => {
      const limit = field.read();
      return limit !== null && limit === displayed;
    },
  });
  return yes ? displayed : null;
}

/** The three that everybody is asked with. */
async function sentences({ terms }: Offer, limit: number, ask: Ask): Promise<HTMLElement[]> {
  const said = await ask((session) => session.short(terms, limit), false);
  return said.map((sentence) => h("p", {}, sentence));
}

/** Everything else that is accepted. */
function detailsOf(id: string, offer: Offer, limit: HTMLElement): HTMLElement {
  const words = termsInWords(offer);
  const numbers = termsInNumbers(offer);
  return h(
    "details",
    { id: `${id}-details`, class: "explained" },
    h("summary", {}, "Details"),
    limit,
    h(
      "ul",
      { class: "terms" },
      ...words.map(([name, said]) => h("li", {}, h("strong", {}, name), " ", said)),
    ),
    epsilonFigure(`${id}-epsilon`, offer),
    h(
      "table",
      { class: "numbers" },
      h("caption", { class: "visually-hidden" }, "All numbers"),
      h(
        "tbody",
        {},
        ...numbers.map(([name, said]) =>
          h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, said)),
        ),
      ),
    ),
  );
}

/** Whether terms are accepted that are worse than those accepted before; all of them are shown. */
export async function askForNewTerms(
  worse: readonly string[],
  offer: Offer,
  { limit, gone }: Pick<State, "limit" | "gone">,
  ask: Ask,
): Promise<boolean> {
  const meaning = `Your limit of ${limit}: ${meaningText(limit, gone, offer)}`;
  return asked({
    id: "new-terms-dialog",
    title: "Accept the new terms?",
    content: [
      h("p", {}, "The server signed these terms. Against those you accepted before:"),
      h("ul", { class: "terms", id: "worse-terms" }, ...worse.map((each) => h("li", {}, each))),
      ...(await sentences(offer, limit, ask)),
      detailsOf("new-terms", offer, h("p", {}, meaning)),
      h(
        "p",
        {},
        "If you do not accept them, no report is made and recommendations go on as they are.",
      ),
    ],
    yes: "Accept the new terms",
    no: "Do not accept",
    grave: true,
  });
}

/** What is asked, and the words of the two buttons. */
export interface Question {
  id: string;
  title: string;
  content: readonly Node[];
  yes: string;
  no: string;
  /** Yes cannot be undone: the focus begins at no. */
  grave?: boolean;
  /** Whether yes can be said now; where not, the page shows why by itself. */
  valid?: () => boolean;
}

/** Resolves when it is answered; Escape means no. The browser gives the focus back. */
export function asked(question: Question): Promise<boolean> {
  return new Promise((resolve) => {
    const { dialog, answer } = built(question);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer());
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

function built(question: Question): { dialog: HTMLDialogElement; answer: () => boolean } {
  let said = false;
  const end = (yes: boolean) => {
    if (yes && !(question.valid?.() ?? true)) return;
    said = yes;
    dialog.close();
  };
  const dialog = h(
    "dialog",
    { id: question.id, "aria-labelledby": `${question.id}-title` },
    h("h2", { id: `${question.id}-title` }, question.title),
    h("div", { class: "words", tabindex: 0 }, ...question.content),
    buttons(question, end),
  );
  return { dialog, answer: () => said };
}

function buttons({ id, yes, no, grave = false }: Question, end: (yes: boolean) => void) {
  const kind = grave ? "button grave" : "button main";
  return h(
    "div",
    { class: "buttons" },
    button({ id: `${id}-no`, class: "button", autofocus: grave }, no, () => end(false)),
    button({ id: `${id}-yes`, class: kind }, yes, () => end(true)),
  );
}

export interface LimitOptions {
  id: string;
  value: number;
  gone: Amount;
  offer: Counted;
  /** Hears of every limit that can be one. */
  tell?: (limit: number) => Promise<void>;
}

/** What epochs are counted by. */
export type Counted = Pick<Offer, "turns"> & {
  terms: Pick<Offer["terms"], "epsilon" | "reports">;
};

/** Says at every change what the number means. */
export function limitField({ id, value, gone, offer, tell }: LimitOptions) {
  const words = meaningText(value, gone, offer);
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
    oninput: () => changed(),
  });
  const changed = () => {
    const limit = input.valueAsNumber;
    input.removeAttribute("aria-invalid");
    say(meaning, meaningText(limit, gone, offer));
    if (limit > 0) void tell?.(limit);
  };
  return {
    element: h(
      "div",
      { class: "field" },
      h("label", { for: id }, "Limit of this device, in epsilon"),
      input,
      meaning,
    ),
    /** Null, with the field marked, if there is no number above 0 in it. */
    read: () => checked(input),
  };
}

function checked(input: HTMLInputElement): number | null {
  const value = input.valueAsNumber;
  if (Number.isFinite(value) && value > 0) return value;
  input.setAttribute("aria-invalid", "true");
  input.closest("details")?.setAttribute("open", "");
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
