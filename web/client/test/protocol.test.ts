/**
 * Every byte of the protocol: read strictly, refused where it is malformed, written as the vectors have it.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { BATCH_ID, encodeBatch, INFO, SEALED, sealReports } from "../src/batch.js";
import { decodeCatalogue } from "../src/catalogue.js";
import * as strict from "../src/encoding.js";
import { concat, equal, fromHex, sha256, toHex, utf8 } from "../src/encoding.js";
import { ProtocolError, UntrustedError } from "../src/errors.js";
import { asksForReports, decodeManifest, openManifest } from "../src/manifest.js";
import { decodeItems } from "../src/model.js";
import { writtenTerms } from "../src/terms.js";
import { fromFloatHex, manifestWith, openSealed, protocol, seeded } from "./vectors.js";

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

const readJson = (text: string) => strict.readObject(utf8(text), 10_000, "file");
const refused = (text: string) => assert.throws(() => readJson(text), ProtocolError, text);

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
  assert.equal(Object.keys(readJson(text)).length, 4);
});

test("random objects are readJson, and refused as soon as one key is written twice", () => {
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
    assert.deepEqual(readJson(text), whole);
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
  assert.deepEqual(readJson(' \n\t{"a" : 1}\r '), { a: 1 });
});

test("depth and length have their limits", () => {
  const nested = (depth: number) => `{"a":${"[".repeat(depth)}${"]".repeat(depth)}}`;
  assert.ok(readJson(nested(60)));
  refused(nested(70));
  refused(nested(4_000));
  assert.ok(strict.readObject(utf8("{}"), 2, "file"));
  assert.throws(() => strict.readObject(utf8("{} "), 2, "file"), /3 bytes, at most 2/);
});

const key = fromHex(protocol.verification_key);

test("the signed manifest opens, and says what it says", async () => {
  const signed = fromHex(protocol.manifest.signed);
  const opened = await openManifest(signed, key);
  const { fields } = protocol.manifest;
  assert.equal(toHex(opened.hash), protocol.manifest.hash);
  assert.deepEqual(opened.raw, signed);
  assert.equal(toHex(opened.key), protocol.manifest.next_key);
  const { terms, ...rest } = opened.manifest;
  assert.deepEqual(writtenTerms(terms), fields.terms);
  assert.deepEqual(rest, {
    epoch: fields.epoch,
    items: fields.items,
    alpha: fields.alpha,
    regularization: fields.regularization,
    model: fromHex(fields.model),
    catalogue: fromHex(fields.catalogue),
    catalogueVersion: fields.catalogue_version,
    publicKey: fromHex(fields.public_key),
    opens: fields.opens,
    closes: fields.closes,
    epochsLeft: fields.epochs_left,
    reportsBehind: fields.reports_behind,
  });
});

test("a finished model asks for nothing", async () => {
  const opened = await openManifest(fromHex(protocol.finished_manifest.signed), key);
  assert.equal(toHex(opened.hash), protocol.finished_manifest.hash);
  assert.deepEqual([opened.manifest.publicKey, opened.manifest.epochsLeft], [null, 0]);
  assert.ok(!asksForReports(opened.manifest, opened.manifest.opens));
});

test("reports are asked for from the second it opens until the crowd is waited for no more", () => {
  const manifest = manifestWith({});
  const { opens, closes, terms } = manifest;
  const ends = closes + terms.hold;
  const asks = [opens - 0.001, opens, closes, ends - 0.001, ends].map((now) =>
    asksForReports(manifest, now),
  );
  assert.deepEqual(asks, [false, true, true, true, false]);
});

test("every malformed manifest is refused", () => {
  assert.ok(protocol.refused.manifest.length > 50);
  for (const { label, bytes } of protocol.refused.manifest) {
    assert.throws(() => decodeManifest(fromHex(bytes)), ProtocolError, label);
  }
});

test("every manifest that is not signed, or signed and malformed, is refused", async () => {
  assert.ok(protocol.refused.signed_manifest.length > 10);
  for (const { label, bytes } of protocol.refused.signed_manifest) {
    await assert.rejects(openManifest(fromHex(bytes), key), UntrustedError, label);
  }
});

test("a reader goes on from the key it trusts, and never back", async () => {
  const signed = fromHex(protocol.manifest.signed);
  const next = fromHex(protocol.manifest.next_key);
  assert.equal(toHex((await openManifest(signed, next)).key), protocol.manifest.next_key);
  // The finished manifest is signed by the first key: whoever has gone further does not believe it.
  const old = fromHex(protocol.finished_manifest.signed);
  assert.equal(toHex((await openManifest(old, key)).key), protocol.verification_key);
  await assert.rejects(openManifest(old, next), /not signed by the server/);
});

test("no bit of a signed manifest can be turned", async () => {
  const signed = fromHex(protocol.manifest.signed);
  for (let at = 0; at < signed.length; at++) {
    const damaged = signed.slice();
    damaged[at] = (damaged[at] as number) ^ (1 << (at % 8));
    await assert.rejects(openManifest(damaged, key), UntrustedError, `byte ${at}`);
  }
});

test("an unsigned manifest is not parsed", async () => {
  const unreadable = concat([utf8("SVM2"), new Uint8Array(1 + 64), utf8("{")]);
  await assert.rejects(openManifest(unreadable, key), /not signed by the server/);
});

test("no louder mechanism than the terms promise is accepted, however near it is", () => {
  const { terms } = decodeManifest(utf8(protocol.manifest.text));
  const share = `"loud_fraction":${terms.loudFraction}`;
  assert.ok(protocol.manifest.text.includes(share));
  for (const above of [1.01, 1.0001, 1 + 1e-9, 1 + Number.EPSILON]) {
    const said = `"loud_fraction":${terms.loudFraction / above}`;
    const text = utf8(protocol.manifest.text.replace(share, said));
    assert.throws(() => decodeManifest(text), ProtocolError, `${above}`);
  }
});

const file = fromHex(protocol.model.bytes);
const { items } = protocol.manifest.fields;
const { factors } = protocol.manifest.fields.terms;

function withHeader(header: string, values = file.subarray(file.length - 40)): Uint8Array {
  const length = new Uint8Array(8);
  new DataView(length.buffer).setUint32(0, header.length, true);
  return concat([length, utf8(header), values]);
}

test("the item matrix", () => {
  const wanted = Float32Array.from(protocol.model.values, fromFloatHex);
  assert.deepEqual(decodeItems(file, items, factors).values, wanted);
  assert.deepEqual(
    decodeItems(concat([Uint8Array.of(9), file]).subarray(1), items, factors).values,
    wanted,
  );
});

test("every malformed model file is refused", () => {
  assert.ok(protocol.refused.model.length > 15);
  for (const { label, bytes } of protocol.refused.model) {
    assert.throws(() => decodeItems(fromHex(bytes), items, factors), ProtocolError, label);
  }
});

test("every entry is 0 or of a size in 2^-60..2^20", () => {
  const header = '{"item_matrix":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}';
  const one = (value: number) => withHeader(header, new Uint8Array(Float32Array.of(value).buffer));
  for (const value of [0, -0, 2 ** -60, -(2 ** -60), 2 ** 20, -(2 ** 20), 1]) {
    assert.deepEqual(decodeItems(one(value), 1, 1).values, Float32Array.of(value));
  }
  const beyond = [2 ** -60 * (1 - 2 ** -24), 2 ** -149, 2 ** 20 * (1 + 2 ** -23), 3e38];
  for (const value of [...beyond, ...beyond.map((size) => -size), NaN, Infinity, -Infinity]) {
    assert.throws(() => decodeItems(one(value), 1, 1), ProtocolError, String(value));
  }
});

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

const hash = fromHex(protocol.manifest.hash);
const publicKey = fromHex(protocol.sealing.public_key);
const privateKey = fromHex(protocol.sealing.private_key);

test("what the other implementation sealed opens here", async () => {
  const sealed = concat(protocol.sealing.sealed.map(fromHex));
  assert.deepEqual(await openSealed(sealed, privateKey, hash), protocol.reports.values);
  assert.equal(toHex(concat([INFO, hash])), protocol.sealing.info);
});

test("what is sealed here opens, in its order, to the last bit", async () => {
  const reports = Uint32Array.of(0, 1, 23, 2 ** 31, 2 ** 32 - 1);
  const sealed = await sealReports(reports, publicKey, hash);
  assert.equal(sealed.length, SEALED * reports.length);
  assert.deepEqual(await openSealed(sealed, privateKey, hash), [...reports]);
});

test("no two sealed reports are alike, not even of the same report", async () => {
  const sealed = await sealReports(new Uint32Array(20), publicKey, hash);
  const pieces = Array.from({ length: 20 }, (_, at) =>
    sealed.slice(SEALED * at, SEALED * (at + 1)),
  );
  assert.equal(new Set(pieces.map((piece) => toHex(piece.slice(0, 32)))).size, 20);
  assert.equal(new Set(pieces.map((piece) => toHex(piece.slice(32)))).size, 20);
});

test("under another manifest, another key, or with a bit turned it does not open", async () => {
  const sealed = await sealReports(Uint32Array.of(5), publicKey, hash);
  await assert.rejects(openSealed(sealed, privateKey, new Uint8Array(32)));
  await assert.rejects(openSealed(sealed, new Uint8Array(32).fill(7), hash));
  for (const at of [0, 32, 36, 51]) {
    const damaged = sealed.slice();
    damaged[at] = (damaged[at] as number) ^ 1;
    await assert.rejects(openSealed(damaged, privateKey, hash), `byte ${at}`);
  }
});

test("nothing is sealed to a key of small order, or to none", async () => {
  const keys = protocol.refused.public_key.map(({ bytes }) => fromHex(bytes));
  assert.equal(keys.length, 9);
  for (const wrong of [
    ...keys,
    new Uint8Array(),
    publicKey.subarray(1),
    concat([publicKey, hash]),
  ]) {
    const attempt = sealReports(Uint32Array.of(1), wrong, hash);
    await assert.rejects(attempt, ProtocolError, toHex(wrong));
  }
});

const batch = {
  epoch: protocol.manifest.fields.epoch,
  manifestHash: fromHex(protocol.manifest.hash),
  id: fromHex(protocol.batch.id),
  sealed: concat(protocol.sealing.sealed.map(fromHex)),
};

test("the batch, byte for byte", async () => {
  const bytes = encodeBatch(batch);
  assert.equal(toHex(bytes), protocol.batch.bytes);
  assert.equal(toHex(await sha256(bytes)), protocol.batch.sha256);
  assert.equal(bytes.length, protocol.manifest.batch_size);
  assert.equal(batch.id.length, BATCH_ID);
});
