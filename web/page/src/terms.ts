/** All terms in plain words and numbers: what a person accepts, and nothing left out. */

import type { Offer } from "sottovoce-client";
import { inFigures } from "sottovoce-client";
import {
  amountText,
  atMostText,
  durationText,
  epochsText,
  oddsSentence,
  reportsText,
} from "./words.js";

/** What it is called, and what there is to say of it. */
export type Term = readonly [name: string, words: string];

/** Everything that is asked for, but for what is a mere number. */
export function termsInWords({ terms, odds, figures }: Offer): Term[] {
  const leaves = `${reportsText(terms.reports)} in an epoch, which is a round of learning`;
  return [
    ["What leaves.", `${leaves}. Each has four bytes and is sealed by itself.`],
    ["What one says.", oddsSentence(odds)],
    ["How often.", oftenSentence(terms)],
    ["When.", WHEN],
    ["Among whom.", `${crowdSentence(terms, figures)} ${holdSentence(terms)}`],
    ["What you trust.", "That this page, which the proxy sent you, is what it seems."],
  ];
}

/** The rest, for a table: what is promised exactly, and what promises nothing but is accepted too. */
export function termsInNumbers({ terms, figures }: Offer): Term[] {
  const own = Object.entries(terms.parameters).map(([name, value]) => `${name} ${value}`);
  return [
    ...inFigures(figures),
    ["epsilon of one report", atMostText(terms.epsilon)],
    ["directions that fit a person best", `${atMostText(terms.loudFraction * 100)} in 100 at most`],
    ["mechanism", terms.mechanism],
    ["parameters", own.join(", ") || "none"],
    ["numbers for each film", amountText(terms.factors)],
    ["films", `${amountText(terms.mostItems)} at most`],
    ["training, for any other you are asked again", terms.training],
  ];
}

/** Counted by the device. */
function oftenSentence({ epochs, share }: Offer["terms"]): string {
  const coin =
    share < 1
      ? ` That is about ${amountText(share * 100)} of 100; your device draws by itself which ones.`
      : "";
  return `In at most ${epochsText(epochs)}, ever: this device counts them, wasted ones too.${coin}`;
}

/** When reports leave, and what happens if the page is closed before. */
export const WHEN =
  "Some seconds into a visit, at a moment drawn at random. If this page is closed by then, your next visit " +
  "goes on.";

/** Among what a report is mixed. */
export function crowdSentence(
  {
    leastClients,
    dummies,
    accounts,
  }: Pick<Offer["terms"], "leastClients" | "dummies" | "accounts">,
  { alone, local }: Pick<Offer["figures"], "alone" | "local">,
): string {
  const hide = alone < local ? ", which hide yours even if all others are fake" : "";
  const own = dummies > 0 ? ` It adds ${reportsText(dummies)} drawn at random${hide}.` : "";
  if (leastClients === 1)
    return `No other person for certain: the proxy also passes on what came from one device alone.${own}`;
  return `The proxy passes reports on mixed, and only if at least ${amountText(leastClients)} ${accounts ? "accounts" : "devices"} took part.${own}`;
}

function holdSentence({ hold }: Offer["terms"]): string {
  const wait = hold > 0 ? `waits up to ${durationText(hold)} longer` : "does not wait";
  return `An epoch without its crowd ${wait}; then its reports are thrown away, but stay paid for.`;
}
