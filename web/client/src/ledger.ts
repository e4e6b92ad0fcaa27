/**
 * The ledger: what a device has spent of its limit, and the rule for new charges. It is the table
 * `charges`, with one row for each batch. Rows are never changed or deleted.
 *
 * Every finite float64 is a whole number of 2^-1074, so sums of `epsilon * reports` are exact here:
 * there is no drift and no rounding down. Ten times 0.1 is more than 1.0, because the float 0.1 is
 * more than a tenth. The Python client computes in exact fractions and decides the same.
 */

import { LedgerError, SettingsError } from "./errors.js";
import { SIGN_LOUD_FRACTION } from "./mechanism/base.js";

/** An amount of epsilon in units of 2^-1074. */
export type Amount = bigint;

/**
 * The charge for one batch: the epsilon of each report, their number, and the data that the central
 * bound needs.
 */
export interface Charge {
  /**
   * Id of the training, 32 hexadecimal digits. The turns of a device are counted separately for
   * each training.
   */
  readonly training: string;
  readonly epoch: number;
  /** SHA-256 of the encoded batch in hexadecimal: the same bytes cost nothing a second time. */
  readonly purpose: string;
  readonly mechanism: string;
  readonly epsilon: number;
  readonly reports: number;
  /**
   * The largest loud fraction rho that the terms allow. With `clients` it bounds how much the
   * server learns.
   */
  readonly loudFraction: number;
  /** Size of the crowd that these terms required. */
  readonly clients: number;
  /** Number of dummies that these terms made the proxy add to the epoch. */
  readonly dummies: number;
}

/** The cost of one epoch. */
export type Price = Pick<Charge, "epsilon" | "reports">;

/**
 * The decision about a charge. "charged": it is within the limit. "known": it was charged before
 * and costs nothing. "refused": it is beyond the limit.
 */
export type Decision = "charged" | "known" | "refused";

const SIGNIFICANT_BITS = 53;
const MIN_EXPONENT = -1074;
const TRAINING_PATTERN = /^[0-9a-f]{32}$/;
const PURPOSE_PATTERN = /^[0-9a-f]{64}$/;
const MECHANISM_PATTERN = /^[a-z0-9][a-z0-9_-]{0,31}$/;

/**
 * Decide whether a batch may be charged after all earlier charges.
 *
 * A charge that is already in `charges` is "known", even if the limit was lowered since: it is
 * spent already. Throws a `LedgerError` if the purpose is known with other fields.
 */
export function decide(limit: number, charges: readonly Charge[], next: Charge): Decision {
  checkCharge(next);
  const isAffordable = isWithinLimit(limit, charges, next);
  const earlier = charges.find((charge) => charge.purpose === next.purpose);
  if (earlier !== undefined) return checkSame(earlier, next);
  return isAffordable ? "charged" : "refused";
}

/** Check whether one more epoch stays within the limit. */
export function isWithinLimit(limit: number, charges: readonly Charge[], price: Price): boolean {
  return sumCharges(charges) + toAmount(price.epsilon, price.reports) <= toUnits(limit, "limit");
}

function checkSame(earlier: Charge, next: Charge): "known" {
  const fields = ["training", "epoch", "mechanism", "epsilon", "reports"] as const;
  const crowdFields = ["loudFraction", "clients", "dummies"] as const;
  if ([...fields, ...crowdFields].some((field) => earlier[field] !== next[field])) {
    throw new LedgerError(
      `purpose ${next.purpose} was charged before with other values; a batch that is randomised ` +
        "again needs a purpose of its own",
    );
  }
  return "known";
}

/** Check that the fields of a charge are valid. */
export function checkCharge(charge: Charge): void {
  checkWhole(charge.epoch, "epoch", 0);
  checkWhole(charge.clients, "clients", 1);
  checkWhole(charge.dummies, "dummies", 0);
  if (!TRAINING_PATTERN.test(charge.training)) {
    throw new SettingsError("training must be 32 lower-case hexadecimal digits");
  }
  if (!PURPOSE_PATTERN.test(charge.purpose)) {
    throw new SettingsError("purpose must be 64 lower-case hexadecimal digits");
  }
  if (!MECHANISM_PATTERN.test(charge.mechanism)) {
    throw new SettingsError("mechanism must be 1 to 32 of a-z, 0-9, _ and -");
  }
  if (toAmount(charge.epsilon, charge.reports) === 0n) {
    throw new SettingsError("epsilon is 0; it must be above 0");
  }
  if (!(charge.loudFraction > 0 && charge.loudFraction <= SIGN_LOUD_FRACTION)) {
    throw new SettingsError(
      `loudFraction is ${charge.loudFraction}; it must be above 0 and at most ${SIGN_LOUD_FRACTION}`,
    );
  }
}

export function sumCharges(charges: readonly Charge[]): Amount {
  return charges.reduce((sum, charge) => sum + toAmount(charge.epsilon, charge.reports), 0n);
}

/**
 * Return the amount that may still be charged. It is never below 0, even after the limit was
 * lowered.
 */
export function computeRemaining(limit: number, charges: readonly Charge[]): Amount {
  const left = toUnits(limit, "limit") - sumCharges(charges);
  return left > 0n ? left : 0n;
}

/** Count the epochs that the limit still pays for, at most the number of turns left. */
export function countAffordableEpochs(
  limit: number,
  spentAmount: Amount,
  price: Price,
  turns: number,
): number {
  const left = toUnits(limit, "limit") - spentAmount;
  return left > 0n ? Math.min(turns, Number(left / toAmount(price.epsilon, price.reports))) : 0;
}

/** Return the smallest limit that pays for this number of further epochs. */
export function computeLimit(epochs: number, spentAmount: Amount, price: Price): number {
  return roundUp(spentAmount + toAmount(price.epsilon, price.reports) * BigInt(epochs));
}

/**
 * Return `epsilon * reports` exactly, for the value of the float and not for the decimal that was
 * typed.
 */
export function toAmount(epsilon: number, reports: number): Amount {
  checkWhole(reports, "reports", 1);
  return toUnits(epsilon, "epsilon") * BigInt(reports);
}

/** Check that a value is a whole number of at least `min`. */
function checkWhole(value: number, what: string, min: number): void {
  if (!Number.isSafeInteger(value) || value < min) {
    throw new SettingsError(
      `${what} is ${value}; it must be a whole number of at least ${min} and below 2^53`,
    );
  }
}

/** Return the smallest float that is not below an amount, to show what was spent. */
export function roundUp(a: Amount): number {
  return round(a, 1n);
}

/** Return the largest float that is not above an amount, to show what is left. */
export function roundDown(a: Amount): number {
  return Math.min(round(a, 0n), Number.MAX_VALUE);
}

/** Round an amount to its leading 53 bits. If that is not exact, add `up` to the last of them. */
function round(a: Amount, up: 0n | 1n): number {
  if (a < 0n) throw new SettingsError("an amount must not be negative");
  const droppedBits = BigInt(Math.max(a.toString(2).length - SIGNIFICANT_BITS, 0));
  const leading = a >> droppedBits;
  const whole = leading << droppedBits === a ? leading : leading + up;
  return Number(whole) * 2 ** (Number(droppedBits) + MIN_EXPONENT);
}

/** Convert a float64 to units of 2^-1074, from its 52 bits of fraction and 11 bits of exponent. */
function toUnits(value: number, what: string): Amount {
  if (!(value >= 0 && value < Number.POSITIVE_INFINITY)) {
    throw new SettingsError(`${what} is ${value}; it must be a finite number of at least 0`);
  }
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, Math.abs(value)); // turns -0 into 0
  const bits = view.getBigUint64(0);
  const [exponent, fraction] = [bits >> 52n, bits & ((1n << 52n) - 1n)];
  return exponent === 0n ? fraction : ((1n << 52n) | fraction) << (exponent - 1n);
}

/** How much of the limit is spent. */
export interface Budget {
  limit: number;
  /** Epsilon spent so far, rounded up. */
  spentEpsilon: number;
  /** Epsilon left, rounded down. It is never below 0, even after the limit was lowered. */
  remainingEpsilon: number;
}

/** Compute the spent and the remaining epsilon. */
export function computeBudget(limit: number, charges: readonly Charge[]): Budget {
  return {
    limit,
    spentEpsilon: roundUp(sumCharges(charges)),
    remainingEpsilon: roundDown(computeRemaining(limit, charges)),
  };
}
