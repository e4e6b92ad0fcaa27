/**
 * What a device promises to its owner, from its ledger and the terms and nothing that others say.
 *
 * Both figures are for everything that was ever charged, in all trainings, and for the turns that are
 * left under the terms. *Local*: the sum of all epsilons; it holds whatever happens. *Central*: the
 * bound of `bound`, each report in the crowd that was enforced for it, the device itself included.
 */

import { turnsLeft } from "./agreement.js";
import { amount, type Charge, roundedUp, spent } from "./amount.js";
import { centralBound, type Group } from "./bound.js";
import type { Terms } from "./terms.js";

/** Both figures, and what the second one rests on. */
export interface Promised {
  /** Pure epsilon, whatever happens. */
  readonly local: number;
  /** An upper bound of epsilon at `delta`, in the crowds that were enforced. */
  readonly central: number;
  /** The one that the terms enforce. */
  readonly clients: number;
  readonly delta: number;
}

const DELTA = 1e-6;
const WEAK_ABOVE = 100;
const WEAK_CENTRAL_ABOVE = 10;
/** Of an epsilon, in a sentence. */
const DIGITS = 3;
const A_DEVICE =
  "The promise is for one device, not for one person: what several devices of a person say adds up.";

/** For all that was charged, `charges` of `Client.status`, and what may follow under these terms. */
export function promiseOf(terms: Terms, charges: readonly Charge[], delta = DELTA): Promised {
  const { epsilon, reports, loudFraction, leastClients: clients } = terms;
  const turns = turnsLeft(terms, charges);
  const local = roundedUp(spent(charges) + amount(epsilon, reports) * BigInt(turns));
  const left = { epsilon, loudFraction, rounds: reports * turns, clients };
  const charged = charges.map((charge) => ({ ...charge, rounds: charge.reports }));
  const groups = grouped(turns > 0 ? [left, ...charged] : charged);
  return { local, central: Math.min(local, centralBound(groups, delta)), clients, delta };
}

/**
 * Reports of equal epsilon and rho together, in the least of their crowds. A smaller crowd is never
 * better. Reports without any stay apart: they count in full.
 */
function grouped(parts: readonly Group[]): Group[] {
  const found = new Map<string, Group>();
  for (const { epsilon, loudFraction, rounds, clients } of parts) {
    const kind = `${epsilon} ${loudFraction} ${clients > 1}`;
    const before = found.get(kind) ?? { rounds: 0, clients };
    const least = Math.min(clients, before.clients);
    const all = { epsilon, loudFraction, rounds: rounds + before.rounds, clients: least };
    found.set(kind, all);
  }
  return [...found.values()];
}

/** For a person: what is promised, and on what it rests. */
export function promiseSentences(promised: Promised): string[] {
  const isWeak = promised.local > WEAK_ABOVE && promised.central > WEAK_CENTRAL_ABOVE;
  const isCrowd = promised.central < promised.local;
  const said = isCrowd ? "Both are weak: they protect" : "This is weak: it protects";
  const weak = isWeak ? [`${said} nobody.`] : [];
  return [localSentence(promised), centralSentence(promised), ...weak, A_DEVICE];
}

function localSentence({ local }: Promised): string {
  return (
    "Whatever happens, even if every report can be traced to this device: any conclusion from all " +
    `that it has reported and may still report under these terms is ${atMost(local)}.`
  );
}

function centralSentence({ local, central, clients, delta }: Promised): string {
  if (central >= local) return "The crowd that is asked for adds nothing to this.";
  return (
    "If the proxy mixes honestly and does not work together with the server, and in every epoch at " +
    `least as many honest devices report as its terms ask for (now ${clients.toLocaleString("en")}): ` +
    `any conclusion from all that the server sees of this is ${atMost(central, delta)}.`
  );
}

/**
 * What holds for every set S of observations, `P[S] <= e^epsilon Q[S] + delta`, in words. Rounded
 * against us; a number that nobody can picture is left out.
 */
function atMost(epsilon: number, delta = 0): string {
  const pictured = epsilon < WEAK_CENTRAL_ABOVE ? ` (${plain(Math.exp(epsilon))})` : "";
  const text = `at most e^${plain(epsilon)}${pictured} times as likely as with any other history`;
  return delta > 0 ? `${text}, plus at most one in ${plain(1 / delta, 6, 0)}` : text;
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
