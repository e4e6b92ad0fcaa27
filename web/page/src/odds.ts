/** What a budget means, in words and odds that can be checked by hand. */

/** What the odds of one report depend on. */
export interface Coin {
  mechanism: string;
  epsilon: number;
  loud: number;
  items: number;
}

/** How often one report says the truth. */
export interface Odds {
  /** Chance that the report agrees with her. */
  truth: number;
  /** The same for a report that is nothing but chance. */
  chance: number;
  /** Chance that a report is drawn at random altogether; 0 where the coin turns signs instead. */
  random: number;
}

/**
 * For a sign: kept with probability e^epsilon / (1 + e^epsilon). For `loudest`: a uniform signed row
 * with probability gamma, else one of the L that fit her best, out of 2 R (docs/mechanisms.md).
 */
export function odds({ mechanism, epsilon, loud, items }: Coin): Odds {
  const ratio = Math.exp(epsilon);
  if (mechanism !== "loudest") return { truth: ratio / (1 + ratio), chance: 0.5, random: 0 };
  const rho = loud / (2 * powerOfTwoFrom(items));
  const gamma = 1 / (1 + rho * (ratio - 1));
  return { truth: gamma * rho + (1 - gamma), chance: rho, random: gamma };
}

/** The least power of two that is not below n. */
export function powerOfTwoFrom(n: number): number {
  let power = 1;
  while (power < n) power *= 2;
  return power;
}

/** A report as a weighted coin, in a sentence. */
export function oddsSentence(coin: Coin): string {
  const { truth, chance, random } = odds(coin);
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
  const weak = sum > 10 ? " By itself that protects nobody: the crowd does." : "";
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
