/**
 * The privacy promise of a device to its owner, computed from its ledger and the terms only.
 *
 * The figures cover all charges of all trainings, and the turns that are left under the terms.
 *
 * - *Local*: the sum of all epsilons, which holds in every case.
 * - *Central*: the result of `computeCentralBound` with the crowd that was enforced for each report
 *   (this device included) and the dummies of the proxy.
 * - *Dummies only*: the central bound if every other device is fake.
 */

import { countTurnsLeft } from "./agreement.js";
import { computeCentralBound, type ReportGroup } from "./bound.js";
import type { Terms } from "./epoch.js";
import { type Charge, countAffordableEpochs, roundUp, sumCharges, toAmount } from "./ledger.js";
import type { Odds } from "./mechanism/base.js";
import { computeOdds } from "./mechanism/registry.js";

/** The figures of a promise, and the values that they depend on. */
export interface PromiseFigures {
  /** Pure epsilon of all reports, which holds in every case. */
  readonly local: number;
  /** An upper bound of epsilon at `delta`, given the crowds that were enforced. */
  readonly central: number;
  /** The central bound if every other device is fake, so that only dummies hide this one. */
  readonly dummiesOnly: number;
  /** Size of the crowd that the terms enforce. */
  readonly clients: number;
  readonly delta: number;
  /** Whether the turns belong to an account, and not to a single device. */
  readonly accounts: boolean;
}

const DEFAULT_DELTA = 1e-6;
const ROUNDING_TOLERANCE = 1e-12;
/** With a larger epsilon, the consent says that nobody is protected. */
const MAX_USEFUL_EPSILON = 10;
/** A guess that is wrong fewer times in 100 than this is described as "always" right. */
const MIN_DOUBT_PERCENT = 1e-4;
/** Significant digits of an epsilon in a sentence. */
const EPSILON_DIGITS = 3;
const EPSILON_MEANING =
  "any conclusion is at most exp(epsilon) times as likely as with another history";
const PER_DEVICE_NOTE = "That is for one device: several of one person add up";
const PER_ACCOUNT_NOTE =
  "That is for one account, whose devices share its reports of this training, if the proxy counts " +
  "honestly; otherwise for one device. Several of one person add up";

/** Compute the promise for all charges so far, and for `turns` further epochs under these terms. */
export function computePromise(
  terms: Terms,
  charges: readonly Charge[],
  delta = DEFAULT_DELTA,
  turns = countTurnsLeft(terms, charges),
): PromiseFigures {
  const { epsilon, reports, loudFraction, minClients: clients, dummies, accounts } = terms;
  const local = roundUp(sumCharges(charges) + toAmount(epsilon, reports) * BigInt(turns));
  const parts = [
    ...(turns > 0 ? [{ epsilon, loudFraction, clients, dummies, reports, turns }] : []),
    ...charges.map((charge) => ({ ...charge, turns: 1 })),
  ].map((part) => ({
    ...part,
    rounds: part.reports * part.turns,
    cover: Math.floor(part.dummies / part.reports),
  }));
  // Figures that differ only by rounding count as equal. Otherwise the sentences would mention
  // dummies even if there are none.
  const computeBound = (of: readonly ReportGroup[]) => {
    const bound = computeCentralBound(groupParts(of), delta);
    return bound < local * (1 - ROUNDING_TOLERANCE) ? bound : local;
  };
  const dummiesOnly = computeBound(parts.map((part) => ({ ...part, clients: 1 })));
  return { local, central: computeBound(parts), dummiesOnly, clients, delta, accounts };
}

/**
 * Group reports of equal epsilon and rho. A group has the smallest crowd and the fewest dummies of
 * its reports.
 *
 * A smaller crowd never hides better, so the bound still holds. Reports without a crowd form groups
 * of their own, because they count in full.
 */
function groupParts(parts: readonly ReportGroup[]): ReportGroup[] {
  const groups = new Map<string, ReportGroup>();
  for (const { epsilon, loudFraction, rounds, clients, cover } of parts) {
    const kind = `${epsilon} ${loudFraction} ${clients > 1} ${cover > 0}`;
    const previous = groups.get(kind) ?? { rounds: 0, clients, cover };
    groups.set(kind, {
      ...{ epsilon, loudFraction, rounds: rounds + previous.rounds },
      clients: Math.min(clients, previous.clients),
      cover: Math.min(cover, previous.cover),
    });
  }
  return [...groups.values()];
}

/** The values in the three sentences of a consent, for use in any language. */
export interface PromiseSummary {
  /** Whether this is a trial, in which most people are invented. */
  readonly trial: boolean;
  /** Maximum number of reports that may still leave the device. */
  readonly reports: number;
  /** Number of outcomes of a report, if reports name items; else null. */
  readonly names: number | null;
  /** How sure a guess about the history can become; null if the history may be worked out. */
  readonly guess: GuessChance | null;
}

/**
 * How often, in 100 times, a guess can be right afterwards if it was right 50 times in 100 before.
 * The chances are texts by `formatGuessChance`.
 */
export interface GuessChance {
  readonly chance: string;
  /** The chance if the proxy cheats or other devices are fake; null if that makes no difference. */
  readonly linkedChance: string | null;
  /** Whether fake devices are enough for `linkedChance`, even if the proxy is honest. */
  readonly byFakes: boolean;
  /**
   * Whether `chance` is for an account or for one device, if the terms need accounts; else null,
   * which also means one device.
   *
   * Another device of the same account may send reports that the limit of this device holds back,
   * and a proxy that cheats may let it send even more. So `linkedChance` is always for one device.
   */
  readonly unit: "account" | "device" | null;
}

/** Options of a summary. */
export interface SummaryOptions {
  /** Delta of the central figures. Default: 1e-6. */
  readonly delta?: number;
  /** Number of reports in a batch that is charged and still waits to be sent. Default: 0. */
  readonly waiting?: number;
}

/**
 * Summarize the reports that the terms allow up to a limit, and those that wait to be sent. This
 * takes some tenths of a second.
 *
 * If no answer to a question had a probability above 50% before, a guess is right with a
 * probability of at most (e^epsilon + delta) / (e^epsilon + 1) afterwards.
 */
export function computeSummary(
  terms: Terms,
  charges: readonly Charge[],
  limit: number,
  { delta = DEFAULT_DELTA, waiting = 0 }: SummaryOptions = {},
): PromiseSummary {
  const all = countTurnsLeft(terms, charges);
  const epochs = countAffordableEpochs(limit, sumCharges(charges), terms, all);
  const guess = computeGuess(computePromise(terms, charges, delta, epochs), epochs < all);
  return {
    trial: terms.trial,
    reports: epochs * terms.reports + waiting,
    names: terms.parameters.names ?? null,
    guess,
  };
}

function computeGuess(promised: PromiseFigures, isLimited = false): GuessChance | null {
  const { local, central, dummiesOnly, delta, accounts } = promised;
  const byDummies = dummiesOnly < local && dummiesOnly <= MAX_USEFUL_EPSILON;
  const hidden = byDummies ? dummiesOnly : central;
  if (hidden > MAX_USEFUL_EPSILON) return null;
  const isHidden = hidden < local;
  const unit = accounts ? (isLimited ? "device" : "account") : null;
  const linkedChance = isHidden || unit === "account" ? formatGuessChance(local) : null;
  return {
    chance: formatGuessChance(hidden, isHidden ? delta : 0),
    linkedChance,
    byFakes: isHidden && !byDummies,
    unit,
  };
}

/**
 * Return the three sentences with which every client asks for consent: what leaves, how much it can
 * reveal, and how to stop. In a trial, a sentence about it comes first.
 *
 * The sentences cover the reports that a limit allows. This takes some tenths of a second.
 */
export function summarize(...args: Parameters<typeof computeSummary>): string[] {
  return formatSummary(computeSummary(...args));
}

/** Return the sentences of a summary. */
export function formatSummary({ trial, reports, names, guess }: PromiseSummary): string[] {
  const one = reports === 1;
  const byChance = names
    ? ` (what you touched last, or one of ${names.toLocaleString("en")} by chance)`
    : ", blurred by chance,";
  const some = `at most ${reports.toLocaleString("en")} report${one ? "" : "s"}${byChance}`;
  const leaves = `${some} ${one ? "goes" : "go"} through a proxy to a server`;
  return [
    ...(trial ? [TRIAL_SENTENCE] : []),
    `Your history stays here; ${reports > 0 ? leaves : "no more reports leave"}.`,
    formatGuess(guess),
    "You can stop at any time, but not undo what has left.",
  ];
}

const TRIAL_SENTENCE =
  "This is a trial: most people in it are invented, so nobody is hidden among them.";

/** Return the second sentence, for all reports that the terms allow. */
export function describeGuess(promised: PromiseFigures): string {
  return formatGuess(computeGuess(promised));
}

function formatGuess(guess: GuessChance | null): string {
  if (guess === null)
    return "This protects nobody: from what leaves, your history may be worked out.";
  const { chance, linkedChance, byFakes, unit } = guess;
  const unitNote = unit ? ` for one ${unit}` : "";
  const right = `A 50:50 guess about it is then right at most ${chance} times in 100${unitNote}`;
  if (linkedChance === null) return `${right}.`;
  const device = unit === "account" ? " for one device" : "";
  return `${right}, or ${linkedChance}${device} if ${byFakes ? "others are fake or " : ""}the proxy cheats.`;
}

/**
 * Return how often, in 100 times, a guess can be right if it was right 50 times before, or
 * "always". The result is never rounded down.
 */
export function formatGuessChance(epsilon: number, delta = 0): string {
  const doubt = (100 * (1 - delta)) / (1 + Math.exp(epsilon));
  if (doubt < MIN_DOUBT_PERCENT) return "always";
  const places = Math.max(0, Math.ceil(-Math.log10(doubt)));
  return (Math.ceil((100 - doubt) * 10 ** places - 1e-9) / 10 ** places).toFixed(places);
}

/** Return the figures behind these sentences, as pairs of a name and a text. */
export function describeFigures(promised: PromiseFigures): [string, string][] {
  const { local, central, dummiesOnly, clients, delta, accounts } = promised;
  const honest = "the proxy mixes honestly, does not work with the server and";
  const now = `(now ${clients.toLocaleString("en")})`;
  const who = accounts ? "accounts" : "devices";
  const crowd = `as many honest ${who} report in every epoch as its terms asked for ${now}`;
  const fake = "adds its dummies, even if all other devices are fake";
  const hidden = [
    dummiesOnly < local && `${formatNumber(dummiesOnly)} if ${honest} ${fake}`,
    central < Math.min(local, dummiesOnly) &&
      `${formatNumber(central)} if ${dummiesOnly < local ? "also" : honest} ${crowd}`,
  ].filter((sentence) => sentence !== false);
  const chance = `Plus a chance of one in ${formatNumber(1 / delta, 6, 0)}`;
  const linked = `${formatNumber(local)}, for all that this device has reported and may report`;
  return [
    ["epsilon, linked", `${linked}, whatever happens`],
    ["epsilon, mixed", hidden.length > 0 ? `${hidden.join("; ")}. ${chance}` : "the same"],
    ["what epsilon is", `${EPSILON_MEANING}. ${accounts ? PER_ACCOUNT_NOTE : PER_DEVICE_NOTE}`],
  ];
}

/**
 * Format a value with a number of digits. If digits are cut off, `more` is added to the last digit:
 * 1 rounds up.
 *
 * Only 15 digits count: a difference beyond them is the rounding error of a product.
 */
function formatNumber(value: number, digits = EPSILON_DIGITS, more: 0 | 1 = 1): string {
  const [mantissa = "", exponent] = value.toExponential(14).split("e");
  const all = mantissa.replace(".", "");
  const leading = Number(all.slice(0, digits)) + (Number(all.slice(digits)) > 0 ? more : 0);
  const rounded = Number(`${leading}e${Number(exponent) - digits + 1}`);
  return rounded.toLocaleString("en", { maximumSignificantDigits: digits });
}

/** The terms that a server asks for, and what they mean for this device. */
export interface Offer {
  readonly terms: Terms;
  readonly odds: Odds;
  /**
   * The promise, computed from the terms and the ledger; it does not depend on claims of the
   * operator.
   */
  readonly figures: PromiseFigures;
  /** Epochs in which this device may still take part. */
  readonly turns: number;
}

/** Compute an offer. This takes some tenths of a second. */
export function createOffer(terms: Terms, charges: readonly Charge[]): Offer {
  const figures = computePromise(terms, charges);
  return { terms, odds: computeOdds(terms), figures, turns: countTurnsLeft(terms, charges) };
}
