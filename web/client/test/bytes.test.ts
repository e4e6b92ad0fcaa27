import assert from "node:assert/strict";
import { test } from "node:test";
import { concat, equal, fromHex, owned, sha256, toHex, utf8 } from "../src/bytes.js";
import { ProtocolError } from "../src/errors.js";

test("hexadecimal goes both ways, with its leading zeros", () => {
  const all = Uint8Array.from({ length: 256 }, (_, byte) => byte);
  assert.deepEqual(fromHex(toHex(all)), all);
  assert.equal(toHex(Uint8Array.of(0, 1, 255)), "0001ff");
  assert.equal(fromHex("").length, 0);
});

test("what is not lower-case hexadecimal is refused", () => {
  for (const text of ["a", "0g", "AB", "0x00", " 00", "00\n", "é0"]) {
    assert.throws(() => fromHex(text), ProtocolError, JSON.stringify(text));
  }
});

test("bytes are joined and compared", () => {
  assert.deepEqual(
    concat([Uint8Array.of(1), new Uint8Array(), Uint8Array.of(2, 3)]),
    fromHex("010203"),
  );
  const many = Array.from({ length: 200_000 }, () => Uint8Array.of(7));
  assert.equal(concat(many).length, 200_000, "an answer may come in as many pieces");
  assert.ok(equal(utf8("é"), fromHex("c3a9")));
  assert.ok(!equal(fromHex("00"), fromHex("01")));
  assert.ok(!equal(fromHex("00"), fromHex("0000")));
});

test("SHA-256 is that of FIPS 180-4, also of a part of a buffer", async () => {
  const wanted = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  assert.equal(toHex(await sha256(utf8("abc"))), wanted);
  assert.equal(toHex(await sha256(utf8("xabcx").subarray(1, 4))), wanted);
});

test("shared memory is copied, other memory is not", () => {
  const shared = new Uint8Array(new SharedArrayBuffer(2));
  assert.notEqual(owned(shared).buffer, shared.buffer);
  const plain = Uint8Array.of(1, 2, 3).subarray(1);
  assert.equal(owned(plain).buffer, plain.buffer);
  assert.deepEqual(owned(plain), Uint8Array.of(2, 3));
});
