/**
 * `loudest`: name a direction at random, or one of those that agree with the gradient most.
 *
 * A person's gradient makes exactly L of the 2n signed directions loud. Below the threshold a report
 * names a uniform one of all 2n, else a uniform one of the L. L is the same for everybody, so whatever
 * the history there are two output probabilities, and the threshold makes their ratio e^epsilon.
 */

import { pick, uniformThreshold } from "../coin.js";
import type { Manifest } from "../manifest.js";
import type { Terms } from "../terms.js";
import type { Mechanism, Odds } from "./base.js";
import { allRows, blockDirections, MOST_BLOCK } from "./blocks.js";
import type { Draw, Person, Told } from "./draws.js";
import { loudAt } from "./loud.js";

/** Our default; `block` is b, `loud` is L. */
export const loudest: Mechanism = {
  name: "loudest",
  about:
    "a report names one of many public directions in which the model could be moved. The few that " +
    "speak for what you touched most are your loudest. A report names one of these or one drawn at random, " +
    "and only this device knows which it was.",
  parameters: {
    directions_seed: { least: 0, most: () => Number.MAX_SAFE_INTEGER, isFree: true },
    block: { least: 1, most: () => MOST_BLOCK, isPowerOfTwo: true, isFree: false },
    // At most half of the signed directions. Free: `loud_fraction` of the terms bounds it.
    loud: { least: 1, most: blockDirections, isFree: true },
  },
  directions: blockDirections,
  loudFraction,
  reports,
  odds,
};

/** rho = L / 2n. */
function loudFraction(manifest: Manifest): number {
  return loudCount(manifest) / (2 * blockDirections(manifest));
}

function loudCount({ terms }: Manifest): number {
  return terms.parameters.loud as number;
}

/** A uniform direction with probability gamma, else one of the L that fit best, out of 2n. */
function odds({ epsilon, loudFraction: rho }: Terms): Odds {
  const gamma = 1 / (1 + rho * (Math.exp(epsilon) - 1));
  return { truth: gamma * rho + (1 - gamma), chance: rho, random: gamma };
}

/** `ties` is the word that settles equal agreements. */
async function reports(person: Person, draws: readonly Draw[], ties: bigint): Promise<Told[]> {
  const { manifest, x } = person;
  const [n, count] = [blockDirections(manifest), loudCount(manifest)];
  const uniformBelow = uniformThreshold(manifest.terms.epsilon, count, n);
  const voice = { a: await allRows(person), x, count, offset: pick(ties, 2 * n) };
  const ranks = draws.map(({ direction }) => pick(direction, count));
  const named = await loudAt(voice, ranks);
  return draws.map(({ direction, coin }, number) => {
    const isRandom = coin < uniformBelow;
    const signed = isRandom ? pick(direction, 2 * n) : (named[number] as number);
    const index = Math.floor(signed / 2);
    const [row, column] = [Math.floor(index / x.length), index % x.length];
    const bit = (signed % 2) as 0 | 1;
    return { index, bit, row, column, coin: isRandom ? "random" : "kept" };
  });
}
