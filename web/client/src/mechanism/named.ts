/**
 * `named`: a report names the item that a person touched last, by k-ary randomised response.
 *
 * There are K outcomes: 0 means "nothing", and i + 1 names item i. Further outcomes are free slots
 * for items that the catalogue may still get. If the random word of a report is below the
 * threshold, the report is drawn from all K outcomes, which are equally likely; otherwise it is the
 * true outcome. So its probabilities are those of `loudest` with one loud direction among K signed
 * ones.
 */

import { MAX_ITEMS } from "../bounds.js";
import { computeUniformThreshold, pickBelow } from "../coin.js";
import type { Terms } from "../epoch.js";
import {
  computeUniformOdds,
  type Draw,
  type Mechanism,
  type Person,
  type ReadableReport,
} from "./base.js";

/** The outcome of a person without an item that the catalogue knows. */
const NOTHING_OUTCOME = 0;

/** The mechanism that names an item. The parameter `names` is K. */
export const named: Mechanism = {
  name: "named",
  asksForNames: true,
  parameters: {
    names: {
      minIn: ({ items }) => items + 1,
      maxIn: () => 2 * MAX_ITEMS,
      isFree: false,
    },
  },
  // A manifest with an odd K is refused, because this is not a whole number then.
  countDirections: ({ terms }) => countNames(terms) / 2,
  computeLoudFraction: ({ terms }) => 1 / countNames(terms),
  makeReports,
  computeOdds: (terms) => computeUniformOdds("name", terms.epsilon, 1 / countNames(terms)),
};

function countNames({ parameters }: Pick<Terms, "parameters">): number {
  return parameters.names as number;
}

/** Make one report for each draw. The rounding word draws one of the items that were touched last. */
function makeReports(
  { manifest: { terms }, own }: Person,
  draws: readonly Draw[],
): ReadableReport[] {
  const outcomes = countNames(terms);
  const uniformBelow = computeUniformThreshold(terms.epsilon, 1, outcomes / 2);
  return draws.map(({ direction, rounding, coin }) => {
    const row = own[pickBelow(rounding, own.length)];
    const name = row === undefined ? NOTHING_OUTCOME : row + 1;
    const isRandom = coin < uniformBelow;
    const outcome = isRandom ? pickBelow(direction, outcomes) : name;
    return {
      index: Math.floor(outcome / 2),
      bit: (outcome % 2) as 0 | 1,
      row: outcome - 1,
      column: 0,
      coin: isRandom ? "random" : "kept",
    };
  });
}
