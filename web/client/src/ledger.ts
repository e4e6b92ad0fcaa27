/**
 * The ledger: what a device has spent of its limit, and its one rule. It is the `charges` of the database:
 * one row for each batch, never changed and never deleted.
 *
 * Every finite float64 is a whole number of 2^-1074, so sums of `epsilon * reports` are exact here:
 * nothing drifts, nothing is rounded down, and ten times 0.1 is more than 1.0, because the float
 * 0.1 is more than a tenth. The Python client counts in exact fractions and decides alike.
 */

import { LedgerError, SettingsError } from "./errors.js";
import { SIGN } from "./mechanism/base.js";

/** So many times 2^-1074. */
export type Amount = bigint;

/** The price of one batch: `reports` of `epsilon` each, and what hides them in a crowd. */
export interface Charge {
  /** 32 hexadecimal digits: the epochs of a lifetime are counted by it. */
  readonly training: string;
  readonly epoch: number;
  /** SHA-256 of the encoded batch, in hexadecimal: the same bytes again cost nothing. */
  readonly purpose: string;
  readonly mechanism: string;
  readonly epsilon: number;
  readonly reports: number;
  /** rho of the terms in force, at most; with `clients` it decides what the server learns. */
  readonly loudFraction: number;
  /** The crowd that these terms enforced. */
  readonly clients: number;
  /** What these terms made the proxy add to the epoch. */
  readonly dummies: number;
}

export type Price = Pick<Charge, "epsilon" | "reports">;

/** Charged: it fits. Known: charged before, costs nothing. Refused: beyond the limit. */
export type Decision = "charged" | "known" | "refused";

const SIGNIFICANT = 53;
const SMALLEST = -1074;
const TRAINING = /^[0-9a-f]{32}$/;
const PURPOSE = /^[0-9a-f]{64}$/;
const MECHANISM = /^[a-z0-9][a-z0-9_-]{0,31}$/;

/**
 * Whether a batch may be charged, given everything charged before.
 *
 * The same charge again is known, also beyond a limit that was lowered since: it is spent already.
 * The same purpose for anything else is a `LedgerError`.
 */
export function decide(limit: number, charges: readonly Charge[], next: Charge): Decision {
  checkCharge(next);
  const fits = isWithin(limit, charges, next);
  const earlier = charges.find((charge) => charge.purpose === next.purpose);
  if (earlier !== undefined) return sameAs(earlier, next);
  return fits ? "charged" : "refused";
}

/** Whether so many reports more would stay within the limit. */
export function isWithin(limit: number, charges: readonly Charge[], price: Price): boolean {
  return spent(charges) + amount(price.epsilon, price.reports) <= units(limit, "limit");
}

function sameAs(earlier: Charge, next: Charge): "known" {
  const fields = ["training", "epoch", "mechanism", "epsilon", "reports"] as const;
  const hidden = ["loudFraction", "clients", "dummies"] as const;
  if ([...fields, ...hidden].some((field) => earlier[field] !== next[field])) {
    throw new LedgerError(
      `purpose ${next.purpose} was charged for something else before; a batch that was randomised ` +
        "anew needs a purpose of its own",
    );
  }
  return "known";
}

/** Refuse a charge that no ledger can hold. */
export function checkCharge(charge: Charge): void {
  checkWhole(charge.epoch, "epoch", 0);
  checkWhole(charge.clients, "clients", 1);
  checkWhole(charge.dummies, "dummies", 0);
  if (!TRAINING.test(charge.training)) {
    throw new SettingsError("training must be 32 lower-case hexadecimal digits");
  }
  if (!PURPOSE.test(charge.purpose)) {
    throw new SettingsError("purpose must be 64 lower-case hexadecimal digits");
  }
  if (!MECHANISM.test(charge.mechanism)) {
    throw new SettingsError("mechanism must be 1 to 32 of a-z, 0-9, _ and -");
  }
  if (amount(charge.epsilon, charge.reports) === 0n) {
    throw new SettingsError("epsilon is 0; it must be above 0");
  }
  if (!(charge.loudFraction > 0 && charge.loudFraction <= SIGN)) {
    throw new SettingsError(
      `loudFraction is ${charge.loudFraction}; it must be above 0 and at most ${SIGN}`,
    );
  }
}

export function spent(charges: readonly Charge[]): Amount {
  return charges.reduce((sum, charge) => sum + amount(charge.epsilon, charge.reports), 0n);
}

/** What may still be charged; never below 0, also when the limit was lowered. */
export function remaining(limit: number, charges: readonly Charge[]): Amount {
  const left = units(limit, "limit") - spent(charges);
  return left > 0n ? left : 0n;
}

/** How many more epochs fit between what is gone and the limit, of the turns that are left. */
export function epochsWithin(limit: number, gone: Amount, price: Price, turns: number): number {
  const left = units(limit, "limit") - gone;
  return left > 0n ? Math.min(turns, Number(left / amount(price.epsilon, price.reports))) : 0;
}

/** The least limit that pays for so many more epochs: ten times 0.1 is more than 1. */
export function limitFor(epochs: number, gone: Amount, price: Price): number {
  return roundedUp(gone + amount(price.epsilon, price.reports) * BigInt(epochs));
}

/** `epsilon * reports`, exactly: of the float itself, not of the decimal it was typed as. */
export function amount(epsilon: number, reports: number): Amount {
  checkWhole(reports, "reports", 1);
  return units(epsilon, "epsilon") * BigInt(reports);
}

function checkWhole(value: number, what: string, least: number): void {
  if (!Number.isSafeInteger(value) || value < least) {
    throw new SettingsError(`${what} is ${value}; it must be at least ${least} and below 2^53`);
  }
}

/** The least float that is not below the amount: to show what was spent. */
export function roundedUp(a: Amount): number {
  return rounded(a, 1n);
}

/** The greatest float that is not above the amount: to show what is left. */
export function roundedDown(a: Amount): number {
  return Math.min(rounded(a, 0n), Number.MAX_VALUE);
}

/** The leading 53 bits; `up` is added to them if anything is cut off. */
function rounded(a: Amount, up: 0n | 1n): number {
  if (a < 0n) throw new SettingsError("an amount is not negative");
  const cut = BigInt(Math.max(a.toString(2).length - SIGNIFICANT, 0));
  const kept = a >> cut;
  const whole = kept << cut === a ? kept : kept + up;
  return Number(whole) * 2 ** (Number(cut) + SMALLEST);
}

/** A float64 by its bits: 52 of fraction, 11 of exponent. */
function units(value: number, what: string): Amount {
  if (!(value >= 0 && value < Number.POSITIVE_INFINITY)) {
    throw new SettingsError(`${what} is ${value}; it must be a finite number of at least 0`);
  }
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, Math.abs(value)); // -0 is 0
  const bits = view.getBigUint64(0);
  const [exponent, fraction] = [bits >> 52n, bits & ((1n << 52n) - 1n)];
  return exponent === 0n ? fraction : ((1n << 52n) | fraction) << (exponent - 1n);
}

/** How much of the limit is gone. */
export interface Budget {
  limit: number;
  /** Rounded up. */
  spent: number;
  /** Rounded down, and never below 0, also when the limit was lowered. */
  remaining: number;
}

/** Where the ledger stands. */
export function budgetOf(limit: number, charges: readonly Charge[]): Budget {
  return {
    limit,
    spent: roundedUp(spent(charges)),
    remaining: roundedDown(remaining(limit, charges)),
  };
}
