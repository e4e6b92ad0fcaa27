/** Radix sort. The number of its steps does not depend on the order of the numbers. */

/** Bits that one pass sorts by; three passes cover all 32 bits. */
const DIGIT_BITS = 11;
const DIGIT_MASK = (1 << DIGIT_BITS) - 1;

/** Return the indexes of the keys in ascending order of the keys; equal keys keep their order. */
export function orderAscending(keys: Uint32Array): Uint32Array {
  const order = new Uint32Array(keys.length);
  for (let place = 0; place < order.length; place++) order[place] = place;
  return reorder(keys, order);
}

/**
 * Return the indexes of the numbers in descending order of the numbers; equal numbers keep their
 * order.
 */
export function orderDescending(numbers: Float64Array): Uint32Array {
  const [low, high] = [new Uint32Array(numbers.length), new Uint32Array(numbers.length)];
  const view = new DataView(new ArrayBuffer(8));
  for (let place = 0; place < numbers.length; place++) {
    view.setFloat64(0, (numbers[place] as number) + 0); // turns -0 into 0
    const [upper, lower] = [view.getUint32(0), view.getUint32(4)];
    // Map the 64 bits of the float to an integer that grows as the float falls. The bits of a
    // negative float have this order already; those of a positive float must be inverted.
    const flip = upper >>> 31 === 1 ? 0 : 0xffff_ffff;
    high[place] = upper ^ (flip & 0x7fff_ffff);
    low[place] = lower ^ flip;
  }
  return reorder(high, orderAscending(low));
}

/** Sort indexes by their keys; equal keys keep their order. */
function reorder(keys: Uint32Array, initialOrder: Uint32Array): Uint32Array {
  let order = initialOrder;
  for (let shift = 0; shift < 32; shift += DIGIT_BITS) order = reorderByDigit(keys, order, shift);
  return order;
}

/** Sort indexes by one digit of their keys; equal digits keep their order. */
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
