/**
 * What a device promises to its owner, from its ledger and the terms only.
 *
 * The figures cover every charge in all trainings, and the turns that are left under the terms.
 * *Local*: the sum of all epsilons, which holds in every case. *Central*: `centralBound` with the
 * crowd that was enforced for each report, the device itself included, and the dummies of the
 * proxy. *Dummies only*: the same bound if every other device is fake.
 */

import { countTurnsLeft } from "./agreement.js";
import { computeCentralBound, type ReportGroup } from "./bound.js";
import type { Terms } from "./epoch.js";
import { type Charge, countAffordableEpochs, roundUp, sumCharges, toAmount } from "./ledger.js";
import { type Explanation, explain } from "./mechanism/registry.js";

/** The figures, and what they depend on. */
export interface PromiseFigures {
  /** Pure epsilon, which holds in every case. */
  readonly local: number;
  /** An upper bound of epsilon at `delta`, in the crowds that were enforced. */
  readonly central: number;
  /** The central bound if every other device is fake, so that only dummies hide this one. */
  readonly dummiesOnly: number;
  /** Size of the crowd that the terms enforce. */
  readonly clients: number;
  readonly delta: number;
  /** Whether the turns under these terms belong to an account, and not to a device. */
  readonly accounts: boolean;
}

const DEFAULT_DELTA = 1e-6;
const ROUNDING_TOLERANCE = 1e-12;
/** A larger central epsilon protects nobody. */
const MAX_USEFUL_EPSILON = 10;
/** A guess that is wrong less often, in times per 100, is described as "always" right. */
const MIN_DOUBT_PERCENT = 1e-4;
/** Digits of an epsilon in a sentence. */
const EPSILON_DIGITS = 3;
const EPSILON_MEANING =
  "any conclusion is at most exp(epsilon) times as likely as with another history";
const PER_DEVICE_NOTE = "That is for one device: several of one person add up";
const PER_ACCOUNT_NOTE =
  "That is for one account, whose devices share its reports of this training, if the proxy counts " +
  "honestly; otherwise for one device. Several of one person add up";

/** Compute the promise for everything that was charged, and what may follow under these terms. */
export function computePromise(
  terms: Terms,
  charges: readonly Charge[],
  delta = DEFAULT_DELTA,
  turns = countTurnsLeft(terms, charges),
): PromiseFigures {
  const { epsilon, reports, loudFraction, leastClients: clients, dummies, accounts } = terms;
  const local = roundUp(sumCharges(charges) + toAmount(epsilon, reports) * BigInt(turns));
  const parts = [
    ...(turns > 0 ? [{ epsilon, loudFraction, clients, dummies, reports, turns }] : []),
    ...charges.map((charge) => ({ ...charge, turns: 1 })),
  ].map((part) => ({
    ...part,
    rounds: part.reports * part.turns,
    cover: Math.floor(part.dummies / part.reports),
  }));
  // Figures that differ only by rounding are equal: else sentences would name dummies without any.
  const computeBound = (of: readonly ReportGroup[]) => {
    const bound = computeCentralBound(groupParts(of), delta);
    return bound < local * (1 - ROUNDING_TOLERANCE) ? bound : local;
  };
  const dummiesOnly = computeBound(parts.map((part) => ({ ...part, clients: 1 })));
  return { local, central: computeBound(parts), dummiesOnly, clients, delta, accounts };
}

/**
 * Group reports of equal epsilon and rho, with the smallest of their crowds and dummies.
 *
 * A smaller crowd never hides better. Reports without a crowd stay separate: they count in full.
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

/** What the three sentences of a consent say, in any language. */
export interface PromiseSummary {
  /** Whether most people are invented. */
  readonly trial: boolean;
  /** Reports that may still leave, at most. */
  readonly reports: number;
  /** How sure a guess can become; null if the history may be worked out. */
  readonly guess: GuessChance | null;
}

/**
 * How often a guess is right that was right 50 times in 100; each figure by `formatGuessChance`.
 */
export interface GuessChance {
  readonly chance: string;
  /** The same if the proxy cheats, or others are fake; null where that is no worse. */
  readonly linkedChance: string | null;
  /** Whether fake devices are enough for that. */
  readonly byFakes: boolean;
  /**
   * Whom `chance` is for if the terms need accounts; null: one device, and they do not.
   *
   * Another device of the account may send what the limit of one device keeps back, and a proxy
   * that cheats may let it send more: `linkedChance` is always for one device.
   */
  readonly unit: "account" | "device" | null;
}

/**
 * Summarize what the terms allow as far as a limit goes. It takes some tenths of a second.
 *
 * If no answer to a question had more than 50% before, a guess is right with a chance of at most
 * (e^epsilon + delta) / (e^epsilon + 1) afterwards.
 */
export function computeSummary(
  terms: Terms,
  charges: readonly Charge[],
  limit: number,
  delta = DEFAULT_DELTA,
): PromiseSummary {
  const all = countTurnsLeft(terms, charges);
  const epochs = countAffordableEpochs(limit, sumCharges(charges), terms, all);
  const guess = computeGuess(computePromise(terms, charges, delta, epochs), epochs < all);
  return { trial: terms.trial, reports: epochs * terms.reports, guess };
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
 * Return the three sentences that every client asks with: what leaves, how much it can reveal, how
 * to stop.
 *
 * They say it as far as a limit goes. This takes some tenths of a second.
 */
export function summarize(...args: Parameters<typeof computeSummary>): string[] {
  return formatSummary(computeSummary(...args));
}

/** Return the sentences of a summary. */
export function formatSummary({ trial, reports, guess }: PromiseSummary): string[] {
  const one = reports === 1;
  const some = `at most ${reports.toLocaleString("en")} report${one ? "" : "s"}, blurred by chance,`;
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

/** Return the second sentence, about everything that the terms allow. */
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
 * Return how often a guess is right that was right 50 times in 100, or "always"; never rounded
 * down.
 */
export function formatGuessChance(epsilon: number, delta = 0): string {
  const doubt = (100 * (1 - delta)) / (1 + Math.exp(epsilon));
  if (doubt < MIN_DOUBT_PERCENT) return "always";
  const places = Math.max(0, Math.ceil(-Math.log10(doubt)));
  return (Math.ceil((100 - doubt) * 10 ** places - 1e-9) / 10 ** places).toFixed(places);
}

/** Return the numbers behind these sentences: pairs of a name and a text. */
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
 * Round to a number of digits, up by `more` if anything is cut off.
 *
 * A difference in the sixteenth digit is the rounding of a product, not a loss of privacy.
 */
function formatNumber(value: number, digits = EPSILON_DIGITS, more: 0 | 1 = 1): string {
  const [mantissa = "", exponent] = value.toExponential(14).split("e");
  const all = mantissa.replace(".", "");
  const leading = Number(all.slice(0, digits)) + (Number(all.slice(digits)) > 0 ? more : 0);
  const rounded = Number(`${leading}e${Number(exponent) - digits + 1}`);
  return rounded.toLocaleString("en", { maximumSignificantDigits: digits });
}

/** What a server asks for, and what it means for this device. */
export interface Offer extends Explanation {
  readonly terms: Terms;
  /** The promise, from the terms and the ledger, not from the operator. */
  readonly figures: PromiseFigures;
  /** Epochs in which this device may still take part. */
  readonly turns: number;
}

/** Compute an offer. It takes some tenths of a second. */
export function createOffer(terms: Terms, charges: readonly Charge[]): Offer {
  const figures = computePromise(terms, charges);
  return { ...explain(terms), terms, figures, turns: countTurnsLeft(terms, charges) };
}
