/** Formats amounts, odds and times for people. */

import { formatGuessChance, type Odds, type Provenance } from "sottovoce-client";

/** Tolerated relative rounding error: three times 0.1 must not be displayed as 0.31. */
const ROUNDING_TOLERANCE = 1e-14;

/**
 * Format a number with thousands separators and at most `places` decimal places. Bounds need
 * `formatBound`, which never rounds down.
 */
export function formatAmount(value: number, places = 2): string {
  return value.toLocaleString("en", { maximumFractionDigits: places });
}

/**
 * Format an epsilon or another bound, never rounded down: with two decimal places, or two
 * significant digits if it is small.
 */
export function formatBound(value: number): string {
  const places = value > 0 ? Math.max(2, 1 - Math.floor(Math.log10(value))) : 2;
  const scale = 10 ** places;
  return formatAmount(Math.ceil(value * scale * (1 - ROUNDING_TOLERANCE)) / scale, places);
}

/** Format a number of reports: "1 report", "50 reports". */
export function formatReports(reports: number): string {
  return reports === 1 ? "1 report" : `${formatAmount(reports)} reports`;
}

/** Say where first lists come from. */
export function formatStart({ name }: Provenance): string {
  return `First lists come from public data: ${name}`;
}

/** Say of whom, until when and with which licence the public data is. */
export function formatStartDetails({ people, lastDate, licence }: Provenance): string {
  const until = lastDate === null ? "" : `, until ${lastDate}`;
  return `${formatAmount(people)} people${until}. Licence: ${licence}`;
}

/** Format a number of epochs: "1 epoch", "10 epochs". */
export function formatEpochs(epochs: number): string {
  return epochs === 1 ? "1 epoch" : `${formatAmount(epochs)} epochs`;
}

export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Shares that differ from 0% or 100% by less than this are formatted as a bound. */
const MIN_DOUBT_PERCENT = 1e-4;

/** What a report says, by its content. */
const REPORT_DESCRIPTIONS: Readonly<Record<Odds["content"], string>> = {
  sign:
    "a report says of one number of the model, drawn at random, whether what you touched would have it " +
    "larger or smaller. A weighted coin may turn the answer round, and only this device knows if it did.",
  direction:
    "a report names one of many public directions in which the model could be moved. The few that " +
    "speak for what you touched most are your loudest. A report names one of these or one drawn at random, " +
    "and only this device knows which it was.",
  name: "a report names one of your films, or one drawn at random, and only this device knows which it was.",
};

/** Describe how reports are made by the mechanism with this name. */
export function describeMechanism(mechanism: string, { content }: Odds): string {
  return `The way in which reports are made is called ${mechanism}: ${REPORT_DESCRIPTIONS[content]}`;
}

/** Describe the odds of a report as those of a weighted coin. */
export function formatOdds({ content, truth, chance }: Odds): string {
  const beginning = `Each report is a weighted coin: ${formatShare(truth)} times in 100 it`;
  const ending = `blind chance would in ${formatShare(chance)} of 100.`;
  // The probability that a person reports a certain name other than the true one. The theorem of
  // Bayes then gives how often a name is true that this share of people would give.
  const byChance = (1 - truth) / (1 / chance - 1);
  const formatLinked = (share: number) =>
    formatAmount(Math.ceil((1000 * share * truth) / (share * truth + (1 - share) * byChance)) / 10);
  return {
    sign: `${beginning} tells the sign that your films gave, otherwise the opposite.`,
    direction: `${beginning} tells a direction that fits you; ${ending}`,
    name:
      `${beginning} names one of your films; ${ending} To somebody who knows that it is ` +
      `yours, a name that 1 in 100 people would give is true in ${formatLinked(0.01)} of 100 cases, one that 1 ` +
      `in 10,000 would give in ${formatLinked(0.0001)}.`,
  }[content];
}

/** Explanation of the limit, for people who read the word for the first time. */
export const LIMIT_SENTENCE =
  "Every report gives away a little about your films, and what has been given away adds up for ever. " +
  "The limit is the most that this device may give away; it is counted in epsilon. " +
  "When it is reached, reporting stops by itself.";

/**
 * Format how often a guess can be right after the reports, if it was right 50 times in 100 before.
 */
export function formatSureness(epsilon: number): string {
  const sure = formatGuessChance(epsilon);
  return sure === "always" ? "certain" : `${sure} in 100`;
}

/** Format e^epsilon, never rounded down: "3", "12.2", "more than a million". */
export function formatRatio(epsilon: number): string {
  const value = Math.exp(epsilon);
  if (value > 1e6) return "more than a million";
  return formatAmount(value < 100 ? Math.ceil(value * 10) / 10 : Math.ceil(value));
}

/**
 * Format a share: never "100 in 100" unless it is certain, nor "0 in 100" unless it is impossible.
 */
function formatShare(share: number): string {
  const percent = share * 100;
  const rest = Math.min(percent, 100 - percent);
  if (rest < MIN_DOUBT_PERCENT) return percent > 50 ? "more than 99.9999" : "fewer than 0.0001";
  return formatAmount(percent, rest < 1 ? 1 + Math.ceil(-Math.log10(rest)) : 0);
}

const TIME_UNITS = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
] as const;

/** Format seconds in the largest unit that fits a whole number of times: "7 days", "90 seconds". */
export function formatDuration(seconds: number): string {
  const [unit, size] = TIME_UNITS.find(([, length]) => seconds > 0 && seconds % length === 0) ?? [
    "second",
    1,
  ];
  const count = seconds / size;
  return `${formatAmount(count)} ${unit}${count === 1 ? "" : "s"}`;
}

/** Format the time until an epoch closes: "0:42", "1:05:00". */
export function formatCountdown(seconds: number): string {
  const wholeSeconds = Math.max(0, Math.ceil(seconds));
  const parts = [
    Math.floor(wholeSeconds / 3600),
    Math.floor(wholeSeconds / 60) % 60,
    wholeSeconds % 60,
  ];
  const displayed = parts[0] === 0 ? parts.slice(1) : parts;
  return displayed.map((part, at) => (at === 0 ? `${part}` : `${part}`.padStart(2, "0"))).join(":");
}

/** Split a long statement into its sentences. */
export function splitSentences(text: string): string[] {
  return text.split(/(?<=[.!?])\s+(?=\p{Lu})/u).filter((sentence) => sentence !== "");
}

/**
 * Describe the epsilon that this browser has spent with other servers. No other displayed figure
 * includes it.
 */
export function formatEarlier(earlierEpsilon: number): string {
  return (
    `With the servers that this address named earlier, this browser has spent ${formatBound(earlierEpsilon)} ` +
    "more: no other figure here counts that, and it adds up."
  );
}
