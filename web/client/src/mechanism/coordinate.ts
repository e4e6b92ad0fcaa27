/** `coordinate`: the paper's Algorithm 1, one clipped gradient entry rounded to one bit. */

import { flipThreshold, pick } from "../coin.js";
import type { Manifest } from "../epoch.js";
import { dot } from "../vector.js";
import { type Draw, type Mechanism, type Person, SIGN, type Told } from "./base.js";

const { fround } = Math;

/** A uniformly drawn entry (i, f) of the gradient, index `i * F + f`. */
export const coordinate: Mechanism = {
  name: "coordinate",
  about:
    "a report says of one number of the model, drawn at random, whether what you touched would have it " +
    "larger or smaller. A weighted coin may turn the answer round, and only this device knows if it did.",
  parameters: {},
  directions,
  loudFraction: () => SIGN,
  reports,
  odds({ epsilon }) {
    const ratio = Math.exp(epsilon);
    return { truth: ratio / (1 + ratio), chance: 0.5, random: 0 };
  },
};

/** M F. */
function directions({ items, terms }: Manifest): number {
  return items * terms.factors;
}

/**
 * The clipped value v is rounded to a sign with P[+] = (1 + v) / 2, and the sign passes the coin.
 * Only that last coin carries epsilon, so it can be exact and blind to the data.
 */
function reports(person: Person, draws: readonly Draw[]): Told[] {
  const { columns } = person.V;
  const entries = directions(person.manifest);
  const flipBelow = flipThreshold(person.manifest.terms.epsilon);
  const touched = new Set(person.own);
  return draws.map((draw) => {
    const index = pick(draw.direction, entries);
    const [row, column] = [Math.floor(index / columns), index % columns];
    const value = gradientEntry(person, row, column, touched.has(row));
    const plus = unit(draw.rounding) < (1 + value) / 2;
    const turned = draw.coin < flipBelow;
    return { index, row, column, bit: plus !== turned ? 1 : 0, coin: turned ? "turned" : "kept" };
  });
}

/** `clip(-2 c_i (p_i - x.v_i) x_f)`, float32. */
function gradientEntry(person: Person, row: number, column: number, touched: boolean): number {
  const { V, x, manifest } = person;
  const p = touched ? 1 : 0;
  const c = fround(1 + fround(fround(manifest.alpha) * p));
  const e = fround(c * fround(p - dot(x, V.values, row * V.columns)));
  const g = fround(fround(-2 * e) * (x[column] as number));
  return Math.min(Math.max(g, -1), 1);
}

/** A float64 in [0, 1) from the word's upper 53 bits; for rounding, which carries no epsilon. */
function unit(word: bigint): number {
  return Number(word >> 11n) * 2 ** -53;
}
