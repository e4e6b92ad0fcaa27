/** Asks for consent to terms, and later to new terms that are worse. */

import type { Offer } from "sottovoce-client";
import { type Amount, computeLimit } from "sottovoce-client";
import { h } from "../dom.js";
import type { Ask } from "../session.js";
import type { State } from "../state.js";
import { describeTerms, listTermNumbers } from "../terms.js";
import { formatEarlier } from "../words.js";
import { createEpsilonFigure } from "./epsilon.js";
import { createLimitField, explainLimit } from "./limit.js";
import { askQuestion } from "./question.js";

/** Number of epochs that the suggested limit pays for. */
const DEFAULT_EPOCHS = 10;

/** Ask for consent. Return the limit that was chosen with a yes, else null. */
export async function askForConsent(
  offer: Offer,
  spentAmount: Amount,
  earlierEpsilon: number,
  ask: Ask,
): Promise<number | null> {
  const value = computeLimit(Math.min(DEFAULT_EPOCHS, offer.turns), spentAmount, offer.terms);
  const summary = h("div", { id: "terms-short", class: "short", "aria-live": "polite" });
  let lastLimit = value;
  /** The limit for which the sentences are displayed; a yes counts only for this limit. */
  let displayed: number | null = null;
  const showLimit = async (limit: number) => {
    lastLimit = limit;
    displayed = null;
    const paragraphs = await makeParagraphs(offer, limit, ask);
    if (limit !== lastLimit) return;
    summary.replaceChildren(...paragraphs);
    displayed = limit;
  };
  await showLimit(value);
  const field = createLimitField({
    id: "terms-limit",
    value,
    spentAmount,
    offer,
    onLimit: showLimit,
  });
  const isAccepted = await askQuestion({
    id: "terms-dialog",
    title: "Take part?",
    content: [
      summary,
      ...createEarlierNote(earlierEpsilon),
      createDetails("terms", offer, field.element),
    ],
    yes: "Take part",
    no: "Not now",
    canAccept: () => {
      const limit = field.read();
      return limit !== null && limit === displayed;
    },
  });
  return isAccepted ? displayed : null;
}

/**
 * Create the note about what this browser spent in earlier ledgers, which the other figures do not
 * include.
 */
function createEarlierNote(earlierEpsilon: number): HTMLElement[] {
  return earlierEpsilon > 0 ? [h("p", {}, formatEarlier(earlierEpsilon))] : [];
}

/** Create paragraphs with the sentences of the consent. */
async function makeParagraphs({ terms }: Offer, limit: number, ask: Ask): Promise<HTMLElement[]> {
  const sentences = await ask((session) => session.summarize(terms, limit), false);
  return sentences.map((sentence) => h("p", {}, sentence));
}

/** Create the collapsible section with the limit and all details of the terms. */
function createDetails(id: string, offer: Offer, limit: HTMLElement): HTMLElement {
  const descriptions = describeTerms(offer);
  const numbers = listTermNumbers(offer);
  return h(
    "details",
    { id: `${id}-details`, class: "explained" },
    h("summary", {}, "Details"),
    limit,
    h(
      "ul",
      { class: "terms" },
      ...descriptions.map(([name, text]) => h("li", {}, h("strong", {}, name), " ", text)),
    ),
    createEpsilonFigure(`${id}-epsilon`, offer),
    h(
      "table",
      { class: "numbers" },
      h("caption", { class: "visually-hidden" }, "All numbers"),
      h(
        "tbody",
        {},
        ...numbers.map(([name, value]) =>
          h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value)),
        ),
      ),
    ),
  );
}

/**
 * Ask for consent to new terms that are worse than the accepted ones. All changes for the worse are
 * displayed.
 */
export async function askForNewTerms(
  offer: Offer,
  { worse, limit, spentAmount }: Pick<State, "worse" | "limit" | "spentAmount">,
  ask: Ask,
): Promise<boolean> {
  const meaning = `Your limit of ${limit}: ${explainLimit(limit, spentAmount, offer)}`;
  return askQuestion({
    id: "new-terms-dialog",
    title: "Accept the new terms?",
    content: [
      h("p", {}, "The server signed new terms. Compared with those that you accepted before:"),
      h("ul", { class: "terms", id: "worse-terms" }, ...worse.map((change) => h("li", {}, change))),
      ...(await makeParagraphs(offer, limit, ask)),
      createDetails("new-terms", offer, h("p", {}, meaning)),
      h(
        "p",
        {},
        "If you do not accept them, no report is made and recommendations go on as they are.",
      ),
    ],
    yes: "Accept the new terms",
    no: "Do not accept",
    isFinal: true,
  });
}
