/**
 * `loudest`: name, most of the time, one of the directions that agree with the gradient most.
 *
 * The client looks at all 2R signed rows for one uniformly drawn column q, ranks them by agreement
 * with its gradient and calls the top L of them loud. Below the threshold it names a uniform signed
 * row, else a uniform loud one. L is the same for everybody, so whatever the history there are two
 * output probabilities, and the threshold makes their ratio e^epsilon.
 */

import { pick, uniformThreshold } from "../coin.js";
import type { Manifest } from "../manifest.js";
import type { Terms } from "../terms.js";
import { DIRECTIONS_SEED, type Mechanism, type Odds } from "./base.js";
import type { Draw, Person, Told } from "./draws.js";
import { allRows, rotated, rotatedDirections } from "./rotation.js";
import { nextPowerOfTwo } from "./walsh.js";

/** Our default; `loud` is L. */
export const loudest: Mechanism = {
  name: "loudest",
  about: "a report names a public direction, more often one that fits you.",
  parameters: {
    directions_seed: DIRECTIONS_SEED,
    // At least one row, at most half of the signed ones. Free: `loud_fraction` of the terms bounds it.
    loud: { least: 1, most: nextPowerOfTwo, isFree: true },
  },
  directions: rotatedDirections,
  loudFraction,
  reports,
  odds,
};

/** rho = L / 2R. */
function loudFraction(manifest: Manifest): number {
  return loudCount(manifest) / (2 * nextPowerOfTwo(manifest.items));
}

function loudCount({ terms }: Manifest): number {
  return terms.parameters.loud as number;
}

/** A uniform signed row with probability gamma, else one of the L that fit best, out of 2R. */
function odds({ epsilon, loudFraction: rho }: Terms): Odds {
  const gamma = 1 / (1 + rho * (Math.exp(epsilon) - 1));
  return { truth: gamma * rho + (1 - gamma), chance: rho, random: gamma };
}

/** A signed row is `row << 1 | bit`. `ties` is the word that settles equal agreements. */
async function reports(person: Person, draws: readonly Draw[], ties: bigint): Promise<Told[]> {
  const rotation = await rotated(person);
  const count = loudCount(person.manifest);
  const signedRows = 2 * rotation.rows;
  const uniformBelow = uniformThreshold(person.manifest.terms.epsilon, count, rotation.rows);
  const mask = pick(ties, signedRows);
  const loud = loudRows(allRows(person, rotation), count, mask);
  return draws.map((draw) => {
    const column = pick(draw.direction, rotation.columns);
    const isRandom = draw.coin < uniformBelow;
    const signedRow = isRandom
      ? pick(draw.choice, signedRows)
      : named(loud, pick(draw.choice, count), rotation.b[column] as number, mask);
    const [row, bit] = [signedRow >> 1, (signedRow & 1) as 0 | 1];
    const index = row * rotation.columns + column;
    return { index, bit, row, column, coin: isRandom ? "random" : "kept" };
  });
}

/**
 * A loud row agrees with a; the gradient is -a b, so a positive b turns its sign. Without a b there
 * is no gradient: all rows tie, and the mask alone says which are loud.
 */
function named(loud: Uint32Array, rank: number, b: number, mask: number): number {
  if (b === 0) return rank ^ mask;
  const row = loud[rank] as number;
  return b > 0 ? row ^ 1 : row;
}

/**
 * The `count` signed rows, ascending, that agree with `a` most.
 *
 * Of equal ones the lowest `signedRow ^ mask`: with a random mask every tied row has the same
 * chance, and the set has exactly `count` members whatever `a` is.
 */
export function loudRows(a: Float32Array, count: number, mask: number): Uint32Array {
  const agreement = new Float32Array(2 * a.length);
  a.forEach((value, row) => {
    agreement[2 * row] = -value;
    agreement[2 * row + 1] = value;
  });
  const least = agreement.slice().sort()[agreement.length - count] as number;
  const isLoud = Uint8Array.from(agreement, (value) => (value > least ? 1 : 0));
  let missing = isLoud.reduce((left, loud) => left - loud, count);
  // In the order of `signedRow ^ mask`; nothing is sorted, however many tie.
  for (let place = 0; missing > 0; place++) {
    const signedRow = place ^ mask;
    if (agreement[signedRow] === least) {
      isLoud[signedRow] = 1;
      missing -= 1;
    }
  }
  return placesOf(isLoud, count);
}

/** Where the ones are, ascending. */
function placesOf(marks: Uint8Array, count: number): Uint32Array {
  const places = new Uint32Array(count);
  let found = 0;
  marks.forEach((mark, place) => {
    if (mark === 1) places[found++] = place;
  });
  return places;
}
