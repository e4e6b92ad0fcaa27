import assert from "node:assert/strict";
import { test } from "node:test";
import { utf8 } from "../src/bytes.js";
import { ProtocolError } from "../src/errors.js";
import * as strict from "../src/strict.js";
import { seeded } from "./vectors.js";

const read = (text: string) => strict.readObject(utf8(text), 10_000, "file");
const refused = (text: string) => assert.throws(() => read(text), ProtocolError, text);

test("a repeated key is refused at any depth, however it is written", () => {
  refused('{"a":1,"a":1}');
  refused('{"a":1,"\\u0061":1}');
  refused('{"a":{"b":1,"c":2,"b":3}}');
  refused('{"a":[{"b":1,"b":1}]}');
  refused('{"":1,"":2}');
  refused('{"1":1,"1":2}');
  refused('{"__proto__":1,"__proto__":2}');
  refused('{"a\\"":1,"a\\u0022":2}');
});

test("the same key in two objects, and colons, quotes and backslashes in texts, are fine", () => {
  const text =
    '{"a:b":{"a":":\\":\\\\"},"b":[{"a":"\\\\"},{"a":":"}],"__proto__":{"a":1},"\\\\":":"}';
  assert.equal(Object.keys(read(text)).length, 4);
});

test("random objects are read, and refused as soon as one key is written twice", () => {
  const random = seeded(1);
  const alphabet = [...'ab:"\\{}[],\u00e9 1', "\\u0061"];
  const key = () => Array.from({ length: 3 }, () => alphabet[Math.floor(random() * 12)]).join("");
  const value = (depth: number): unknown => {
    const inner = () => value(depth + 1);
    if (depth > 3 || random() < 0.3) return [key(), 7, null, true][Math.floor(random() * 4)];
    if (random() < 0.4) return [inner(), inner()];
    return Object.fromEntries([0, 1, 2].map(() => [key(), inner()]));
  };
  for (let round = 0; round < 300; round++) {
    const whole = { first: value(0), last: value(0) };
    const text = JSON.stringify(whole);
    assert.deepEqual(read(text), whole);
    refused(`${text.slice(0, -1)},"f\\u0069rst":0}`);
  }
});

test("only UTF-8 without a byte order mark, only an object, nothing behind it", () => {
  for (const text of [
    "",
    "1",
    "[]",
    "null",
    '"a"',
    "{}{}",
    "{},",
    "\ufeff{}",
    "{'a':1}",
    "{a:1}",
  ]) {
    refused(text);
  }
  for (const text of [
    '{"a":NaN}',
    '{"a":-Infinity}',
    '{"a":01}',
    '{"a":+1}',
    '{"a":1,}',
    "\u00a0{}",
  ]) {
    refused(text);
  }
  const damaged = utf8('{"a":"?"}').map((byte) => (byte === 0x3f ? 0xff : byte));
  assert.throws(() => strict.readObject(damaged, 9, "file"), ProtocolError);
  assert.deepEqual(read(' \n\t{"a" : 1}\r '), { a: 1 });
});

test("depth and length have their limits", () => {
  const nested = (depth: number) => `{"a":${"[".repeat(depth)}${"]".repeat(depth)}}`;
  assert.ok(read(nested(60)));
  refused(nested(70));
  refused(nested(4_000));
  assert.ok(strict.readObject(utf8("{}"), 2, "file"));
  assert.throws(() => strict.readObject(utf8("{} "), 2, "file"), /3 bytes, at most 2/);
});

test("whole numbers", () => {
  for (const good of [0, 1, 5, -0])
    assert.equal(Object.is(strict.whole(good, 0, 5, "n"), good + 0), true);
  for (const bad of [-1, 6, 2.5, NaN, Infinity, "3", true, null, undefined, [], 2 ** 53]) {
    assert.throws(() => strict.whole(bad, 0, 5, "n"), ProtocolError, String(bad));
  }
  assert.throws(() => strict.whole(2 ** 53, 0, Number.MAX_VALUE, "n"), ProtocolError);
});

test("numbers", () => {
  assert.equal(strict.real(2.5, 0, 40, "n"), 2.5);
  for (const bad of [-1e-9, 40.1, NaN, Infinity, "3", true, null]) {
    assert.throws(() => strict.real(bad, 0, 40, "n"), ProtocolError, String(bad));
  }
  assert.throws(() => strict.real(JSON.parse("1e400"), 0, Number.MAX_VALUE, "n"), ProtocolError);
});

test("texts are counted in code points, and half of a pair is none", () => {
  assert.equal(strict.text("😀".repeat(512), 512, "t").length, 1024);
  for (const bad of ["", "😀".repeat(513), "x".repeat(513), "\ud83d", "a\udc00b", 1, null]) {
    assert.throws(() => strict.text(bad, 512, "t"), ProtocolError);
  }
});

test("hashes and keys", () => {
  assert.equal(strict.hexadecimal("0a".repeat(32), "h").length, 32);
  for (const bad of [
    "0A".repeat(32),
    "0a".repeat(31),
    "0a".repeat(33),
    `${"0a".repeat(32)}\n`,
    1,
  ]) {
    assert.throws(() => strict.hexadecimal(bad, "h"), ProtocolError);
  }
  strict.exactKeys({ a: 1, b: 2 }, ["b", "a"], "k");
  assert.throws(() => strict.exactKeys({ a: 1 }, ["a", "b"], "k"), /missing \[b\]/);
  assert.throws(() => strict.exactKeys({ a: 1, c: 1 }, ["a"], "k"), /unknown \[c\]/);
  assert.throws(() => strict.exactKeys({}, ["toString"], "k"), ProtocolError);
});

test("a refused value is shown short", () => {
  assert.equal(strict.shown("x".repeat(1000)).length, 80);
  assert.equal(strict.shown([1, 2]), "a list of 2");
  assert.equal(strict.shown({ a: 1 }), "an object of 1");
});
