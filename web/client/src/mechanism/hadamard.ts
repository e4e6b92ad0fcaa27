/** `hadamard`: the sign of one uniformly drawn rotated direction, through the paper's coin. */

import { flipThreshold, pick } from "../coin.js";
import { type Draw, type Person, type Told, tossed } from "./draws.js";
import { oneRow, rotated } from "./rotation.js";

/**
 * The direction is drawn without looking at the data, so indices carry no information. The sign of
 * the gradient's share `-a_r b_q` (a zero gets a random sign) passes the coin.
 */
export async function hadamard(person: Person, draws: readonly Draw[]): Promise<Told[]> {
  const rotation = await rotated(person);
  const flipBelow = flipThreshold(person.manifest.epsilon);
  return draws.map((draw) => {
    const index = pick(draw.direction, rotation.rows * rotation.columns);
    const [row, column] = [Math.floor(index / rotation.columns), index % rotation.columns];
    const a = oneRow(person, rotation, row);
    const b = rotation.b[column] as number;
    // Comparing the two signs instead of the product's: tiny factors cannot underflow to zero.
    const plus = a === 0 || b === 0 ? draw.choice >> 63n === 1n : a > 0 !== b > 0;
    return { index, row, column, ...tossed(plus, draw.coin, flipBelow) };
  });
}
