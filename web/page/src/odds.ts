/** What a budget means, in words and odds that can be checked by hand. */

import type { Odds } from "sottovoce-client";

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
    `factor of ${ratio(epsilon)} at most: that is what epsilon ${amountText(epsilon)} means.`
  );
}

/** What is left to hope for when reports can be put side by side; null where one report is all. */
export function togetherSentence(epsilon: number, reports: number): string | null {
  if (reports < 2) return null;
  const sum = epsilon * reports;
  const weak = sum > 10 ? " By itself that protects nobody." : "";
  return (
    `If proxy and server worked together, they could put your ${amountText(reports)} reports of an ` +
    `epoch side by side. Together these have a budget of ${amountText(sum)}.${weak}`
  );
}

/** "3", "12.2", "more than a million": e^epsilon, never rounded down. */
function ratio(epsilon: number): string {
  const value = Math.exp(epsilon);
  if (value > 1e6) return "more than a million";
  return amountText(value < 100 ? Math.ceil(value * 10) / 10 : Math.ceil(value));
}

/** Never "100 in 100" of something that is not certain. */
function inHundred(share: number): string {
  const percent = share * 100;
  if (percent > 99 || percent < 1) return percent.toFixed(percent > 99.99 ? 4 : 2);
  return percent.toFixed(0);
}

/** A number for people: thousands apart, at most two places. */
export function amountText(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: 2 });
}
