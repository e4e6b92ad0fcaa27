/**
 * Questions that must be answered before anything goes on: what is accepted before anything leaves, asked once
 * and in plain words.
 */

import { type Amount, epochsWithin, limitFor } from "sottovoce-client";
import { button, h, say } from "../dom.js";
import type { Offer, State } from "../session.js";
import { termsInWords } from "../terms.js";
import { amountText, atMostText, epochsText } from "../words.js";
import { epsilonFigure } from "./pictures.js";

/** So many epochs are offered to begin with. */
const DEFAULT_EPOCHS = 10;

/** The lifetime limit that was chosen with a yes, else null. */
export async function askForConsent(
  offer: Offer,
  gone: Amount,
  jitter: number,
): Promise<number | null> {
  const value = limitFor(Math.min(DEFAULT_EPOCHS, offer.turns), gone, offer.terms);
  const field = limitField({ id: "terms-limit", value, gone, offer });
  const yes = await asked({
    id: "terms-dialog",
    title: "Take part?",
    content: [termsList(offer, jitter), explained("terms-epsilon", offer), field.element],
    yes: "Take part",
    no: "Not now",
    valid: () => field.read() !== null,
  });
  return yes ? field.read() : null;
}

function termsList(offer: Offer, jitter: number): HTMLElement {
  const terms = termsInWords(offer, jitter);
  return h(
    "ul",
    { class: "terms" },
    ...terms.map(({ name, words }) => h("li", {}, h("strong", {}, name), " ", words)),
  );
}

function explained(id: string, offer: Offer): HTMLElement {
  return h(
    "details",
    { class: "explained" },
    h("summary", {}, "What epsilon means, in a picture"),
    epsilonFigure(id, offer),
  );
}

/** Whether terms are accepted that are worse than those accepted before; all of them are shown. */
export function askForNewTerms(
  worse: readonly string[],
  offer: Offer,
  { limit, gone }: Pick<State, "limit" | "gone">,
  jitter: number,
): Promise<boolean> {
  return asked({
    id: "new-terms-dialog",
    title: "Accept the new terms?",
    content: [
      h("p", {}, "The server signed these terms. Against those you accepted before:"),
      h("ul", { class: "terms", id: "worse-terms" }, ...worse.map((each) => h("li", {}, each))),
      h("p", {}, "All of them:"),
      termsList(offer, jitter),
      explained("new-terms-epsilon", offer),
      h("p", {}, `Your lifetime limit of ${limit}: ${meaningText(limit, gone, offer)}`),
      h(
        "p",
        {},
        "If you do not accept them, nothing is sent and recommendations go on as they are.",
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
}

/** What epochs are counted by. */
export type Counted = Pick<Offer, "turns"> & {
  terms: Pick<Offer["terms"], "epsilon" | "reports">;
};

/** Says at every change what the number means. */
export function limitField({ id, value, gone, offer }: LimitOptions) {
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
    /** Null, with the field marked, if there is no number above 0 in it. */
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
