/** `hadamard`: the sign of one uniformly drawn rotated direction, through the paper's coin. */

import { flipThreshold, pick } from "../coin.js";
import { DIRECTIONS_SEED, type Mechanism, SIGN, signOdds } from "./base.js";
import { type Draw, type Person, type Told, tossed } from "./draws.js";
import { oneRow, rotated, rotatedDirections } from "./rotation.js";

/** Nothing to clip and nothing to tune. */
export const hadamard: Mechanism = {
  name: "hadamard",
  about: "a report tells on which side of one public direction your films lie.",
  parameters: { directions_seed: DIRECTIONS_SEED },
  directions: rotatedDirections,
  loudFraction: () => SIGN,
  reports,
  odds: signOdds,
};

/**
 * The direction is drawn without looking at the data, so indices carry no information. The sign of
 * the gradient's share `-a_r b_q` (a zero gets a random sign) passes the coin.
 */
async function reports(person: Person, draws: readonly Draw[]): Promise<Told[]> {
  const rotation = await rotated(person);
  const all = rotatedDirections(person.manifest);
  const flipBelow = flipThreshold(person.manifest.terms.epsilon);
  return draws.map((draw) => {
    const index = pick(draw.direction, all);
    const [row, column] = [Math.floor(index / rotation.columns), index % rotation.columns];
    const a = oneRow(person, rotation, row);
    const b = rotation.b[column] as number;
    // Comparing the two signs instead of the product's: tiny factors cannot underflow to zero.
    const plus = a === 0 || b === 0 ? draw.choice >> 63n === 1n : a > 0 !== b > 0;
    return { index, row, column, ...tossed(plus, draw.coin, flipBelow) };
  });
}
