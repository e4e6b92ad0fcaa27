import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHex, utf8 } from "../src/bytes.js";
import { decodeCatalogue } from "../src/catalogue.js";
import { ProtocolError } from "../src/errors.js";
import { protocol } from "./vectors.js";

test("the catalogue, with the number of each id", () => {
  const { items, numbers } = decodeCatalogue(fromHex(protocol.catalogue.bytes));
  const found = items.map((item) => [item.id, item.title, item.tags]);
  assert.deepEqual(found, protocol.catalogue.items);
  items.forEach((item, number) => {
    assert.equal(numbers.get(item.id), number);
  });
  assert.equal(numbers.size, items.length);
});

test("every malformed catalogue is refused", () => {
  assert.ok(protocol.refused.catalogue.length > 25);
  for (const { label, bytes } of protocol.refused.catalogue) {
    assert.throws(() => decodeCatalogue(fromHex(bytes)), ProtocolError, label);
  }
});

test("every odd but well-formed catalogue is read", () => {
  assert.ok(protocol.accepted.catalogue.length > 5);
  for (const { label, bytes } of protocol.accepted.catalogue) {
    assert.equal(decodeCatalogue(fromHex(bytes)).items.length, 1, label);
  }
});

test("512 code points are a title, also in two units each", () => {
  const item = { id: "a", title: "😀".repeat(512), tags: { genre: ["b"], year: 1927 } };
  const read = (one: unknown) =>
    decodeCatalogue(utf8(JSON.stringify({ version: 2, items: [one] })));
  assert.deepEqual(read(item).items, [item]);
  assert.throws(() => read({ ...item, title: `${item.title}x` }), ProtocolError);
});

test("kinds that objects have of their own are kinds like any other", () => {
  const items = ["a", "b"].map((id) => ({ id, title: id, tags: { constructor: ["x"] } }));
  const { tags } = decodeCatalogue(utf8(JSON.stringify({ version: 2, items })));
  assert.deepEqual(tags.names, [{ kind: "constructor", name: "x" }]);
});

test("ids that objects have of their own are ids like any other", () => {
  const items = ["__proto__", "constructor"].map((id) => ({ id, title: id, tags: {} }));
  const { numbers } = decodeCatalogue(utf8(JSON.stringify({ version: 2, items })));
  assert.deepEqual(
    [...numbers],
    [
      ["__proto__", 0],
      ["constructor", 1],
    ],
  );
});
