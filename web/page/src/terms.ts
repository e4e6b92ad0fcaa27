/** All terms in plain words: what a person accepts, and nothing left out. */

import type { Offer } from "./session.js";
import {
  amountText,
  atMostText,
  BUDGET_SENTENCE,
  durationText,
  epochsText,
  oddsSentence,
  ratioSentence,
  reportsText,
  togetherSentence,
} from "./words.js";

export interface Term {
  name: string;
  words: string;
}

/** Everything that is asked for, then what it promises, what it cannot, and the numbers. */
export function termsInWords(offer: Offer, jitter: number): Term[] {
  const { terms, odds, about } = offer;
  const together = togetherSentence(offer);
  return [
    {
      name: "What leaves.",
      words: `${reportsText(terms.reports)} in an epoch, which is a round of learning. Each has four bytes and is sealed by itself. Your films never leave.`,
    },
    { name: "What one says.", words: `${oddsSentence(odds)} ${ratioSentence(terms.epsilon)}` },
    { name: "How often.", words: oftenSentence(offer) },
    { name: "When.", words: whenSentence(jitter) },
    { name: "Among whom.", words: `${crowdSentence(terms)} ${holdSentence(offer)}` },
    ...(together === null ? [] : [{ name: "What they say together.", words: together }]),
    { name: "What it costs.", words: BUDGET_SENTENCE },
    { name: "What is promised.", words: offer.promise.join(" ") },
    {
      name: "What cannot be undone.",
      words:
        "A report that has left can never be called back, and what it cost stays spent. You can stop at any time.",
    },
    {
      name: "What you trust.",
      words:
        "That proxy and server are not in league, and that this page, which the proxy sent you, is what it seems.",
    },
    { name: "How it is made.", words: `By ${terms.mechanism}: ${about} ${publicNumbers(offer)}` },
  ];
}

/** Numbers that promise nothing, but belong to what is accepted. */
function publicNumbers({ terms }: Offer): string {
  const parameters = Object.entries(terms.parameters).map(([name, value]) => `${name} ${value}`);
  const own = parameters.length === 0 ? "" : ` Its parameters: ${parameters.join(", ")}.`;
  return (
    `At most ${atMostText(terms.loudFraction * 100)} in 100 directions fit a person best.${own} ` +
    `The model has ${amountText(terms.factors)} numbers for each film, and at most ` +
    `${amountText(terms.mostItems)} films. It is the training ${terms.training}: for another one you ` +
    "are asked again."
  );
}

/** Counted by the device. */
function oftenSentence({ terms }: Offer): string {
  const { epochs, share } = terms;
  const coin =
    share < 1
      ? ` That is about ${amountText(share * 100)} of 100 epochs; your device draws by itself which ones.`
      : "";
  return (
    `In at most ${epochsText(epochs)} of this training, ever. This device counts them itself, also ` +
    `those that came to nothing.${coin}`
  );
}

/** When reports leave, and what happens if the page is closed before. */
export function whenSentence(jitter: number): string {
  if (jitter === 0) {
    return "This demo sends after about five seconds. A real page waits for a random moment, so that nobody sees when you came.";
  }
  return (
    `At a moment drawn at random within ${durationText(jitter)}. If this page is closed then, nothing ` +
    "is spent, and your next visit goes on."
  );
}

/** Among what a report is mixed. */
export function crowdSentence(terms: Pick<Offer["terms"], "leastClients" | "dummies">): string {
  const { leastClients, dummies } = terms;
  const own =
    dummies > 0
      ? ` It mixes in ${dummies.toLocaleString("en")} reports of nobody, drawn at random, so that ` +
        "yours are hidden even if all others are fake."
      : "";
  if (leastClients === 1)
    return `No other person for certain: this proxy also passes on what came from one device alone.${own}`;
  return (
    `The proxy mixes everybody's reports and passes them on only if at least ` +
    `${leastClients.toLocaleString("en")} devices took part.${own}`
  );
}

function holdSentence({ terms }: Offer): string {
  const wait = terms.hold > 0 ? `waits up to ${durationText(terms.hold)} longer` : "does not wait";
  return (
    `An epoch without its crowd ${wait}; then its reports are thrown away, and what they cost stays ` +
    "spent."
  );
}
