/** Describes all terms that a person accepts, in plain words and in numbers. */

import type { Offer } from "sottovoce-client";
import { describeFigures } from "sottovoce-client";
import {
  formatAmount,
  formatBound,
  formatDuration,
  formatEpochs,
  formatOdds,
  formatReports,
} from "./words.js";

/** The name of a term, and its description. */
export type Term = readonly [name: string, words: string];

/** Describe the terms in plain words. Terms that are only numbers are in `listTermNumbers`. */
export function describeTerms({ terms, odds, figures }: Offer): Term[] {
  const leaves = `${formatReports(terms.reports)} in an epoch, which is a round of learning`;
  return [
    ["What leaves.", `${leaves}. Each has four bytes and is sealed by itself.`],
    ["What one says.", formatOdds(odds)],
    ["How often.", formatFrequency(terms)],
    ["When.", WHEN_SENTENCE],
    ["Among whom.", `${formatCrowd(terms, figures)} ${formatHold(terms)}`],
    ["What you trust.", "That this page, which the proxy sent you, is what it seems."],
  ];
}

/** List the other terms for a table: the exact promises, and terms that affect no promise. */
export function listTermNumbers({ terms, figures }: Offer): Term[] {
  const parameters = Object.entries(terms.parameters).map(([name, value]) => `${name} ${value}`);
  return [
    ...describeFigures(figures),
    ["epsilon of one report", formatBound(terms.epsilon)],
    [
      "directions that fit a person best",
      `${formatBound(terms.loudFraction * 100)} in 100 at most`,
    ],
    ["mechanism", terms.mechanism],
    ["parameters", parameters.join(", ") || "none"],
    ["numbers for each film", formatAmount(terms.factors)],
    ["films", `${formatAmount(terms.maxItems)} at most`],
    ["training, for any other you are asked again", terms.training],
  ];
}

/** Describe how often a device reports. */
function formatFrequency({ epochs, share }: Offer["terms"]): string {
  const coin =
    share < 1
      ? ` That is about ${formatAmount(share * 100)} of 100; your device draws by itself which ones.`
      : "";
  return `In at most ${formatEpochs(epochs)}, ever: this device counts them, wasted ones too.${coin}`;
}

/** Explanation of when reports leave, and of what happens if the page is closed before. */
export const WHEN_SENTENCE =
  "Some seconds into a visit, at a moment drawn at random. If this page is closed by then, your next visit " +
  "goes on.";

/** Describe the reports with which a report is mixed. */
export function formatCrowd(
  { minClients, dummies, accounts }: Pick<Offer["terms"], "minClients" | "dummies" | "accounts">,
  { dummiesOnly, local }: Pick<Offer["figures"], "dummiesOnly" | "local">,
): string {
  const hiding = dummiesOnly < local ? ", which hide yours even if all others are fake" : "";
  const dummiesSentence =
    dummies > 0 ? ` It adds ${formatReports(dummies)} drawn at random${hiding}.` : "";
  if (minClients === 1)
    return `No other person for certain: the proxy also passes on what came from one device alone.${dummiesSentence}`;
  return `The proxy passes reports on mixed, and only if at least ${formatAmount(minClients)} ${accounts ? "accounts" : "devices"} took part.${dummiesSentence}`;
}

function formatHold({ hold }: Offer["terms"]): string {
  const waiting = hold > 0 ? `waits up to ${formatDuration(hold)} longer` : "does not wait";
  return `An epoch without its crowd ${waiting}; then its reports are thrown away, but stay paid for.`;
}
