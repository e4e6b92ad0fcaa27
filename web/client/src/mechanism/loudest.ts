/**
 * `loudest`: a report names a direction at random, or one of those that agree most with the
 * gradient.
 *
 * A person's gradient makes exactly L of the 2n signed directions loud. If the random word of a
 * report is below the threshold, the report names one of all 2n directions; otherwise it names one
 * of the L loud ones. All directions of a choice are equally likely. L is the same for everybody.
 * So a direction has one of two probabilities, loud or not, which are the same for every history,
 * and the threshold makes their ratio e^epsilon.
 */

import { computeUniformThreshold, pickBelow } from "../coin.js";
import type { Manifest } from "../epoch.js";
import {
  computeUniformOdds,
  type Draw,
  type Mechanism,
  type Person,
  type ReadableReport,
} from "./base.js";
import { computeRowWeights, countDirections } from "./directions.js";
import { findLoud } from "./loud.js";

/** Largest block size b. */
const MAX_BLOCK_ITEMS = 1024;

/** The default mechanism. The parameter `block` is b, and `loud` is L. */
export const loudest: Mechanism = {
  name: "loudest",
  parameters: {
    directions_seed: { minIn: () => 0, maxIn: () => Number.MAX_SAFE_INTEGER, isFree: true },
    block: {
      minIn: () => 1,
      maxIn: () => MAX_BLOCK_ITEMS,
      isPowerOfTwo: true,
      isFree: false,
    },
    // At most half of the signed directions can be loud. The parameter may change under accepted
    // terms, because their `loud_fraction` bounds it.
    loud: { minIn: () => 1, maxIn: countDirections, isFree: true },
  },
  countDirections,
  computeLoudFraction,
  makeReports,
  computeOdds: ({ epsilon, loudFraction }) =>
    computeUniformOdds("direction", epsilon, loudFraction),
};

/** Return rho = L / 2n. */
function computeLoudFraction(manifest: Manifest): number {
  return getLoudCount(manifest) / (2 * countDirections(manifest));
}

function getLoudCount({ terms }: Manifest): number {
  return terms.parameters.loud as number;
}

/** Make one report for each draw; `ties` breaks ties between equal agreements. */
async function makeReports(
  person: Person,
  draws: readonly Draw[],
  ties: bigint,
): Promise<ReadableReport[]> {
  const { manifest, x } = person;
  const [n, count] = [countDirections(manifest), getLoudCount(manifest)];
  const uniformBelow = computeUniformThreshold(manifest.terms.epsilon, count, n);
  const settings = { a: await computeRowWeights(person), x, count, offset: pickBelow(ties, 2 * n) };
  const ranks = draws.map(({ direction }) => pickBelow(direction, count));
  const loudDirections = await findLoud(settings, ranks);
  return draws.map(({ direction, coin }, number) => {
    const isRandom = coin < uniformBelow;
    const signedIndex = isRandom ? pickBelow(direction, 2 * n) : (loudDirections[number] as number);
    const index = Math.floor(signedIndex / 2);
    const [row, column] = [Math.floor(index / x.length), index % x.length];
    const bit = (signedIndex % 2) as 0 | 1;
    return { index, bit, row, column, coin: isRandom ? "random" : "kept" };
  });
}
