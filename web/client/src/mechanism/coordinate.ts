/**
 * `coordinate`: Algorithm 1 of the paper. A report says the sign of one clipped gradient entry,
 * rounded at random.
 */

import { computeFlipThreshold, pickBelow } from "../coin.js";
import type { Manifest } from "../epoch.js";
import { multiplyVectors } from "../vector.js";
import {
  type Draw,
  type Mechanism,
  type Person,
  type ReadableReport,
  SIGN_LOUD_FRACTION,
} from "./base.js";

const { fround } = Math;

/**
 * The mechanism that reports a uniformly drawn entry (i, f) of the gradient, with index `i * F +
 * f`.
 */
export const coordinate: Mechanism = {
  name: "coordinate",
  parameters: {},
  countDirections,
  computeLoudFraction: () => SIGN_LOUD_FRACTION,
  makeReports,
  computeOdds({ epsilon }) {
    const ratio = Math.exp(epsilon);
    return { content: "sign", truth: ratio / (1 + ratio), chance: 0.5, random: 0 };
  },
};

/** Return M F, the number of entries of the gradient. */
function countDirections({ items, terms }: Manifest): number {
  return items * terms.factors;
}

/**
 * Make one report for each draw: round the clipped value v to a sign with P[+] = (1 + v) / 2, and
 * flip the sign with the coin.
 *
 * Only the coin uses epsilon. It does not depend on the data, so its probabilities can be exact.
 */
function makeReports(person: Person, draws: readonly Draw[]): ReadableReport[] {
  const { columns } = person.V;
  const entries = countDirections(person.manifest);
  const flipBelow = computeFlipThreshold(person.manifest.terms.epsilon);
  const touched = new Set(person.own);
  return draws.map((draw) => {
    const index = pickBelow(draw.direction, entries);
    const [row, column] = [Math.floor(index / columns), index % columns];
    const value = computeGradientEntry(person, row, column, touched.has(row));
    const plus = toUnitFloat(draw.rounding) < (1 + value) / 2;
    const turned = draw.coin < flipBelow;
    return { index, row, column, bit: plus !== turned ? 1 : 0, coin: turned ? "turned" : "kept" };
  });
}

/** Return the gradient entry `clip(-2 c_i (p_i - x.v_i) x_f)` in float32. */
function computeGradientEntry(
  person: Person,
  row: number,
  column: number,
  touched: boolean,
): number {
  const { V, x, manifest } = person;
  const p = touched ? 1 : 0;
  const c = fround(1 + fround(fround(manifest.alpha) * p));
  const e = fround(c * fround(p - multiplyVectors(x, V.values, row * V.columns)));
  const g = fround(fround(-2 * e) * (x[column] as number));
  return Math.min(Math.max(g, -1), 1);
}

/**
 * Convert the upper 53 bits of a word to a float64 in [0, 1). It is used for rounding only, which
 * does not use epsilon.
 */
function toUnitFloat(word: bigint): number {
  return Number(word >> 11n) * 2 ** -53;
}
