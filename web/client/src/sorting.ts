/** Sorting by counting: its steps do not depend on the order of the numbers. */

/** Bits of one sorting pass: three passes for all 32. */
const DIGIT_BITS = 11;
const DIGIT_MASK = (1 << DIGIT_BITS) - 1;

/**
 * Return the places of the keys in ascending order; of equal ones the lower place first.
 *
 * They are sorted by counting: the steps do not depend on the order of the numbers.
 */
export function orderAscending(keys: Uint32Array): Uint32Array {
  const order = new Uint32Array(keys.length);
  for (let place = 0; place < order.length; place++) order[place] = place;
  return reorder(keys, order);
}

/** Return the places of the numbers, the largest first; of equal ones the lower place first. */
export function orderDescending(numbers: Float64Array): Uint32Array {
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
  return reorder(high, orderAscending(low));
}

/** Sort places by their keys; equal keys stay in order. */
function reorder(keys: Uint32Array, initialOrder: Uint32Array): Uint32Array {
  let order = initialOrder;
  for (let shift = 0; shift < 32; shift += DIGIT_BITS) order = reorderByDigit(keys, order, shift);
  return order;
}

/** Sort places by one digit of their keys; equal digits stay in order. */
function reorderByDigit(keys: Uint32Array, order: Uint32Array, shift: number) {
  const digitAt = (place: number) => ((keys[place] as number) >>> shift) & DIGIT_MASK;
  const next = new Uint32Array(DIGIT_MASK + 2);
  for (let place = 0; place < keys.length; place++) {
    const after = digitAt(place) + 1;
    next[after] = (next[after] as number) + 1;
  }
  for (let digit = 1; digit <= DIGIT_MASK; digit++) {
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
