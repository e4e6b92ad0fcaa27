/** Sorting by counting: the same steps are done whatever the order of the numbers. */

/** Bits by which numbers are put in order at once: three passes for all 32. */
const DIGIT = 11;
const MASK = (1 << DIGIT) - 1;

/** Where the keys are, in ascending order of the keys; of equal ones the lower place first. */
export function ascendingOrder(keys: Uint32Array): Uint32Array {
  const order = new Uint32Array(keys.length);
  for (let place = 0; place < order.length; place++) order[place] = place;
  return reordered(keys, order);
}

/** Where the numbers are, the largest first; of equal ones the lower place first. */
export function descendingOrder(numbers: Float64Array): Uint32Array {
  const [low, high] = [new Uint32Array(numbers.length), new Uint32Array(numbers.length)];
  const view = new DataView(new ArrayBuffer(8));
  for (let place = 0; place < numbers.length; place++) {
    view.setFloat64(0, (numbers[place] as number) + 0); // -0 is 0
    const [upper, lower] = [view.getUint32(0), view.getUint32(4)];
    // As a whole number, the bits of a float64 fall as it falls, but rise for negative ones.
    const flip = upper >>> 31 === 1 ? 0 : 0xffff_ffff;
    high[place] = upper ^ (flip & 0x7fff_ffff);
    low[place] = lower ^ flip;
  }
  return reordered(high, ascendingOrder(low));
}

/** By the keys; those in which they are the same stay as they were. */
function reordered(keys: Uint32Array, before: Uint32Array): Uint32Array {
  let order = before;
  for (let shift = 0; shift < 32; shift += DIGIT) order = byDigit(keys, order, shift);
  return order;
}

/** Ordered by one digit; those in which it is the same stay as they were. */
function byDigit(keys: Uint32Array, order: Uint32Array, shift: number) {
  const digitAt = (place: number) => ((keys[place] as number) >>> shift) & MASK;
  const next = new Uint32Array(MASK + 2);
  for (let place = 0; place < keys.length; place++) {
    const after = digitAt(place) + 1;
    next[after] = (next[after] as number) + 1;
  }
  for (let digit = 1; digit <= MASK; digit++) {
    next[digit] = (next[digit] as number) + (next[digit - 1] as number);
  }
  const sorted = new Uint32Array(order.length);
  for (const place of order) {
    const digit = digitAt(place);
    const to = next[digit] as number;
    sorted[to] = place;
    next[digit] = to + 1;
  }
  return sorted;
}
