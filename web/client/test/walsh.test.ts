import assert from "node:assert/strict";
import { test } from "node:test";
import { concat, sha256, toHex, utf8 } from "../src/bytes.js";
import { hadamardSign, publicBytes, publicSigns, transform } from "../src/mechanism/walsh.js";
import { ascendingOrder } from "../src/sorting.js";
import { seeded } from "./vectors.js";

test("the transform is the matrix of signs, and twice it is n times the same", () => {
  const values = Float64Array.from({ length: 16 }, (_, at) => at * at - 5);
  const once = values.slice();
  transform(once);
  const wanted = values.map((_, row) =>
    values.reduce((sum, value, column) => sum + hadamardSign(row, column) * value, 0),
  );
  assert.deepEqual(once, wanted);
  transform(once);
  assert.deepEqual(
    once,
    values.map((value) => 16 * value),
  );
});

test("a transform of columns is that of each column", () => {
  const wide = Float64Array.from({ length: 24 }, (_, at) => (at * 7) % 11);
  const columns = [0, 1, 2].map((f) => wide.filter((_, at) => at % 3 === f));
  transform(wide, 3);
  columns.forEach((column, f) => {
    transform(column);
    assert.deepEqual(
      wide.filter((_, at) => at % 3 === f),
      column,
    );
  });
});

test("signs with all of 24 bits", () => {
  assert.equal(hadamardSign(2 ** 24 - 1, 2 ** 24 - 1), 1);
  assert.equal(hadamardSign(2 ** 24 - 1, 2 ** 23 - 1), -1);
  assert.equal(hadamardSign(5, 2), 1);
});

test("public bytes are digests one after the other, however many are wanted", async () => {
  const digest = (number: number) => {
    const last = [number % 256, number >> 8, 0, 0];
    return sha256(
      concat([
        utf8("sottovoce directions v2\0order\0"),
        Uint8Array.of(7, 0, 0, 0, 0, 0, 0, 0, ...last),
      ]),
    );
  };
  const all = await publicBytes(7, "order", 32 * 600);
  for (const number of [0, 1, 255, 256, 599]) {
    assert.deepEqual(all.slice(32 * number, 32 * (number + 1)), await digest(number));
  }
  for (const size of [0, 1, 31, 32, 33, 8191, 8192, 8193]) {
    assert.deepEqual(await publicBytes(7, "order", size), all.subarray(0, size));
  }
});

test("public signs are those of the example and take every bit of a seed", async () => {
  assert.deepEqual([...(await publicSigns(7, 5))], [1, -1, -1, 1, 1]);
  const long = await publicSigns(2 ** 53 - 1, 600);
  const other = await publicSigns(2 ** 52 - 1, 600);
  assert.notEqual(toHex(new Uint8Array(long)), toHex(new Uint8Array(other)));
  const minus = long.filter((sign) => sign === -1).length;
  assert.ok(minus > 230 && minus < 370, `${minus} of 600`);
});

test("an order is that of the numbers, of equal ones the lower place first", () => {
  const random = seeded(4);
  const ends = [0, 1, 2047, 2048, 2 ** 22 - 1, 2 ** 22, 2 ** 31, 2 ** 32 - 1];
  for (const length of [0, 1, 2, 100, 5000]) {
    for (const draw of [() => random() * 2 ** 32, () => ends[Math.floor(random() * 8)] as number]) {
      const keys = Uint32Array.from({ length }, draw);
      const wanted = Array.from(keys.keys()).sort(
        (one, other) => (keys[one] as number) - (keys[other] as number) || one - other,
      );
      assert.deepEqual([...ascendingOrder(keys)], wanted);
    }
  }
});
