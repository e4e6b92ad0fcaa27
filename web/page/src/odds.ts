/** What a budget means, in words and odds that can be checked by hand. */

import type { Odds } from "sottovoce-client";
import { amountText, atMostText, epochsText, reportsText } from "./amounts.js";
import type { Offer } from "./messages.js";

/** In hundredths: what is nearer to certainty is not told in digits. */
const LEAST_DOUBT = 1e-4;

/** A report as a weighted coin, in a sentence. */
export function oddsSentence({ truth, chance, random }: Odds): string {
  const beginning = `Each report is a weighted coin: ${inHundred(truth)} times in 100 it tells`;
  return random === 0
    ? `${beginning} the sign that your films gave, otherwise the opposite.`
    : `${beginning} a direction that fits you; blind chance would do so ${inHundred(chance)} times.`;
}

/** What epsilon bounds, in a sentence. */
export function ratioSentence(epsilon: number): string {
  return (
    "To whoever reads one report, and knows whatever else, it changes the odds on what you saw by a " +
    `factor of ${ratio(epsilon)} at most: that is what epsilon ${atMostText(epsilon)} means.`
  );
}

/** What is left to hope for when reports can be put side by side; null where one is all there is. */
export function togetherSentence({ terms, turns, lifetime }: Told): string | null {
  if (lifetime <= terms.epsilon) return null;
  const when = turns === 1 ? "in 1 epoch" : `in each of ${epochsText(turns)}`;
  const next = turns === 0 ? "" : ` and may still report: ${reportsText(terms.reports)} ${when}`;
  const weak = lifetime > 10 ? " By itself that protects nobody." : "";
  return (
    "If proxy and server worked together, they could put side by side all that this device has " +
    `reported${next}. Together these have a budget of ${atMostText(lifetime)}.${weak}`
  );
}

type Told = Pick<Offer, "terms" | "turns" | "lifetime">;

/** What a budget is, where somebody meets the word first. */
export const BUDGET_SENTENCE =
  "Every report gives away a little about your films, and what has been given away adds up for ever. " +
  "The budget is the most that this device may give away in its lifetime; it is counted in epsilon. " +
  "When it is spent, reporting stops by itself.";

/**
 * How sure somebody can be that you saw a film, in hundredths, who took it for as likely as not: odds of
 * 1 to 1 become e^epsilon to 1 at most. Never rounded down.
 */
export function surenessText(epsilon: number): string {
  const doubt = 100 / (1 + Math.exp(epsilon));
  if (doubt < LEAST_DOUBT) return "certain";
  const places = doubt < 1 ? Math.ceil(-Math.log10(doubt)) : 0;
  const scale = 10 ** places;
  return `${amountText(Math.ceil((100 - doubt) * scale - 1e-9) / scale, places)} in 100`;
}

/** "3", "12.2", "more than a million": e^epsilon, never rounded down. */
export function ratio(epsilon: number): string {
  const value = Math.exp(epsilon);
  if (value > 1e6) return "more than a million";
  return amountText(value < 100 ? Math.ceil(value * 10) / 10 : Math.ceil(value));
}

/** Never "100 in 100" of something that is not certain, nor "0 in 100" of what can happen. */
function inHundred(share: number): string {
  const percent = share * 100;
  const rest = Math.min(percent, 100 - percent);
  if (rest < LEAST_DOUBT) return percent > 50 ? "more than 99.9999" : "fewer than 0.0001";
  return amountText(percent, rest < 1 ? 1 + Math.ceil(-Math.log10(rest)) : 0);
}
