/**
 * What a device promises to its owner, from its ledger and the terms and nothing that others say.
 *
 * Both figures are for everything that was ever charged, in all trainings, and for the turns that are
 * left under the terms. *Local*: the sum of all epsilons; it holds whatever happens. *Central*:
 * `centralBound`, each report in the crowd that was enforced for it, the device itself included, and
 * among the dummies of the proxy. *Alone*: among these only, as if every other device were fake.
 */

import { turnsLeft } from "./agreement.js";
import { centralBound, type Group } from "./bound.js";
import type { Terms } from "./epoch.js";
import { amount, type Charge, epochsWithin, roundedUp, spent } from "./ledger.js";
import { type Explanation, explain } from "./mechanism/registry.js";

/** The figures, and what they rest on. */
export interface Promised {
  /** Pure epsilon, whatever happens. */
  readonly local: number;
  /** An upper bound of epsilon at `delta`, in the crowds that were enforced. */
  readonly central: number;
  /** The same if every other device is fake: what the proxy's dummies hide by themselves. */
  readonly alone: number;
  /** The crowd that the terms enforce. */
  readonly clients: number;
  readonly delta: number;
  /** Whether the turns under these terms are those of an account, and not of one device. */
  readonly accounts: boolean;
}

const DELTA = 1e-6;
const ROUNDING = 1e-12;
/** A central budget beyond this is nothing to stand on. */
const WEAK_ABOVE = 10;
/** Times in 100: what is nearer to certainty is not told in digits. */
const LEAST_DOUBT = 1e-4;
/** Of an epsilon, in a sentence. */
const DIGITS = 3;
const MEANING = "any conclusion is at most exp(epsilon) times as likely as with another history";
const OF_DEVICE = "That is for one device: several of one person add up";
const OF_ACCOUNT =
  "That is for one account, whose devices share its reports of this training, if the proxy counts " +
  "honestly; otherwise for one device. Several of one person add up";

/** For all that was charged, `charges` of `Client.status`, and what may follow under these terms. */
export function promiseOf(
  terms: Terms,
  charges: readonly Charge[],
  delta = DELTA,
  turns = turnsLeft(terms, charges),
): Promised {
  const { epsilon, reports, loudFraction, leastClients: clients, dummies, accounts } = terms;
  const local = roundedUp(spent(charges) + amount(epsilon, reports) * BigInt(turns));
  const parts = [
    ...(turns > 0 ? [{ epsilon, loudFraction, clients, dummies, reports, turns }] : []),
    ...charges.map((charge) => ({ ...charge, turns: 1 })),
  ].map((part) => ({
    ...part,
    rounds: part.reports * part.turns,
    cover: Math.floor(part.dummies / part.reports),
  }));
  // What differs by rounding alone is the same: it would name dummies where there are none.
  const bounded = (of: readonly Group[]) => {
    const found = centralBound(grouped(of), delta);
    return found < local * (1 - ROUNDING) ? found : local;
  };
  const alone = bounded(parts.map((part) => ({ ...part, clients: 1 })));
  return { local, central: bounded(parts), alone, clients, delta, accounts };
}

/**
 * Reports of equal epsilon and rho together, in the least of their crowds and dummies. Fewer are never
 * better. Reports without any stay apart: they count in full.
 */
function grouped(parts: readonly Group[]): Group[] {
  const found = new Map<string, Group>();
  for (const { epsilon, loudFraction, rounds, clients, cover } of parts) {
    const kind = `${epsilon} ${loudFraction} ${clients > 1} ${cover > 0}`;
    const before = found.get(kind) ?? { rounds: 0, clients, cover };
    found.set(kind, {
      ...{ epsilon, loudFraction, rounds: rounds + before.rounds },
      clients: Math.min(clients, before.clients),
      cover: Math.min(cover, before.cover),
    });
  }
  return [...found.values()];
}

/** What the three sentences of `inShort` state, in whatever language they are said. */
export interface Short {
  /** Whether most people are invented. */
  readonly trial: boolean;
  /** That leave, at most. */
  readonly reports: number;
  /** How much they can tell; null where all may be worked out. */
  readonly guess: Guess | null;
}

/** How often a guess is right that would be so 50 times in 100; each figure as of `inHundred`. */
export interface Guess {
  readonly sure: string;
  /** The same if the proxy cheats, or others are fake; null where that is no worse. */
  readonly linked: string | null;
  /** Whether others who are fake are enough for that. */
  readonly byFakes: boolean;
  /**
   * Whom `sure` is for, where the terms need accounts; null: one device, and they do not. What the limit of
   * one device keeps back another of the account may send, and a proxy that cheats may let it send more:
   * `linked` is for one device in any case.
   */
  readonly unit: "account" | "device" | null;
}

/**
 * As far as a limit goes. A guess none of whose answers is likelier than 50% before is right with a
 * chance of at most (e^epsilon + delta) / (e^epsilon + 1) after. Takes some tenths of a second.
 */
export function shortOf(
  terms: Terms,
  charges: readonly Charge[],
  limit: number,
  delta = DELTA,
): Short {
  const all = turnsLeft(terms, charges);
  const epochs = epochsWithin(limit, spent(charges), terms, all);
  const guess = guessOf(promiseOf(terms, charges, delta, epochs), epochs < all);
  return { trial: terms.trial, reports: epochs * terms.reports, guess };
}

function guessOf(promised: Promised, isLimited = false): Guess | null {
  const { local, central, alone, delta, accounts } = promised;
  const byDummies = alone < local && alone <= WEAK_ABOVE;
  const hidden = byDummies ? alone : central;
  if (hidden > WEAK_ABOVE) return null;
  const isHidden = hidden < local;
  const unit = accounts ? (isLimited ? "device" : "account") : null;
  const linked = isHidden || unit === "account" ? inHundred(local) : null;
  return {
    sure: inHundred(hidden, isHidden ? delta : 0),
    linked,
    byFakes: isHidden && !byDummies,
    unit,
  };
}

/**
 * What leaves, how much that can tell, how to stop: the three sentences that anybody is asked with, in any
 * client, as far as a limit goes. Takes some tenths of a second.
 */
export function inShort(...given: Parameters<typeof shortOf>): string[] {
  return sentencesOf(shortOf(...given));
}

/** Of figures that are known already. */
export function sentencesOf({ trial, reports, guess }: Short): string[] {
  const one = reports === 1;
  const some = `at most ${reports.toLocaleString("en")} report${one ? "" : "s"}, blurred by chance,`;
  const leaves = `${some} ${one ? "goes" : "go"} through a proxy to a server`;
  return [
    ...(trial ? [TRIAL] : []),
    `Your history stays here; ${reports > 0 ? leaves : "no more reports leave"}.`,
    told(guess),
    "You can stop at any time, but not undo what has left.",
  ];
}

const TRIAL = "This is a trial: most people in it are invented, so nobody is hidden among them.";

/** The second of them: how much can be told. */
export function telling(promised: Promised): string {
  return told(guessOf(promised));
}

function told(guess: Guess | null): string {
  if (guess === null)
    return "This protects nobody: from what leaves, your history may be worked out.";
  const { sure, linked, byFakes, unit } = guess;
  const whose = unit ? ` for one ${unit}` : "";
  const right = `A 50:50 guess about it is then right at most ${sure} times in 100${whose}`;
  if (linked === null) return `${right}.`;
  const device = unit === "account" ? " for one device" : "";
  return `${right}, or ${linked}${device} if ${byFakes ? "others are fake or " : ""}the proxy cheats.`;
}

/** How often a guess is right that would be so 50 times in 100, or "always"; never rounded down. */
export function inHundred(epsilon: number, delta = 0): string {
  const doubt = (100 * (1 - delta)) / (1 + Math.exp(epsilon));
  if (doubt < LEAST_DOUBT) return "always";
  const places = Math.max(0, Math.ceil(-Math.log10(doubt)));
  return (Math.ceil((100 - doubt) * 10 ** places - 1e-9) / 10 ** places).toFixed(places);
}

/** The numbers behind these words, by name, each with what it rests on. */
export function inFigures(promised: Promised): [string, string][] {
  const { local, central, alone, clients, delta, accounts } = promised;
  const honest = "the proxy mixes honestly, does not work with the server and";
  const now = `(now ${clients.toLocaleString("en")})`;
  const who = accounts ? "accounts" : "devices";
  const crowd = `as many honest ${who} report in every epoch as its terms asked for ${now}`;
  const fake = "adds its dummies, even if all other devices are fake";
  const hidden = [
    alone < local && `${plain(alone)} if ${honest} ${fake}`,
    central < Math.min(local, alone) &&
      `${plain(central)} if ${alone < local ? "also" : honest} ${crowd}`,
  ].filter((each) => each !== false);
  const chance = `Plus a chance of one in ${plain(1 / delta, 6, 0)}`;
  const linked = `${plain(local)}, for all that this device has reported and may report`;
  return [
    ["epsilon, linked", `${linked}, whatever happens`],
    ["epsilon, mixed", hidden.length > 0 ? `${hidden.join("; ")}. ${chance}` : "the same"],
    ["what epsilon is", `${MEANING}. ${accounts ? OF_ACCOUNT : OF_DEVICE}`],
  ];
}

/**
 * To so many digits, and `more` if anything is cut off. What differs in the sixteenth digit is the
 * rounding of a product, no loss of privacy.
 */
function plain(value: number, digits = DIGITS, more: 0 | 1 = 1): string {
  const [mantissa = "", exponent] = value.toExponential(14).split("e");
  const all = mantissa.replace(".", "");
  const kept = Number(all.slice(0, digits)) + (Number(all.slice(digits)) > 0 ? more : 0);
  const rounded = Number(`${kept}e${Number(exponent) - digits + 1}`);
  return rounded.toLocaleString("en", { maximumSignificantDigits: digits });
}

/** What a server asks for, and what that means for this device. */
export interface Offer extends Explanation {
  readonly terms: Terms;
  /** What is promised: from the terms and the ledger, and not the operator's word. */
  readonly figures: Promised;
  /** In how many epochs this device may still take part under them. */
  readonly turns: number;
}

/** Takes some tenths of a second. */
export function offerOf(terms: Terms, charges: readonly Charge[]): Offer {
  const figures = promiseOf(terms, charges);
  return { ...explain(terms), terms, figures, turns: turnsLeft(terms, charges) };
}
