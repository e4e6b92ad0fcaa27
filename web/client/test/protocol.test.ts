/**
 * Every byte of the protocol: read strictly, refused where it is malformed, written as the vectors have it.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeBatch } from "../src/batch.js";
import { concatenate, encodeUtf8, fromHex, hashSha256, isEqual, toHex } from "../src/bytes.js";
import { decodeCatalogue } from "../src/catalogue.js";
import { isOpen } from "../src/epoch.js";
import { ProtocolError, UntrustedError } from "../src/errors.js";
import { parseObject } from "../src/json.js";
import { decodeManifest, openManifest } from "../src/manifest.js";
import { decodeItems } from "../src/model.js";
import { applyPart, choosePart } from "../src/patch.js";
import { HPKE_INFO_PREFIX, hpkeSuite, SEALED_REPORT_BYTES, sealReports } from "../src/sealing.js";
import { decodeShelf, openShelf } from "../src/shelf.js";
import { toFields } from "../src/terms.js";
import { BATCH_ID_BYTES } from "../src/timing.js";
import { fromFloatHex, manifestWith, openSealed, protocol } from "./vectors.js";

test("a repeated key is refused at any depth; colons, quotes and backslashes in texts are fine", () => {
  const read = (text: string) => parseObject(encodeUtf8(text), 10_000, "file");
  for (const text of ['{"a":{"b":1,"c":2,"b":3}}', '{"a":[{"b":1,"b":1}]}', '{"":1,"":2}']) {
    assert.throws(() => read(text), ProtocolError, text);
  }
  const fine =
    '{"a:b":{"a":":\\":\\\\"},"b":[{"a":"\\\\"},{"a":":"}],"__proto__":{"a":1},"\\\\":":"}';
  assert.equal(Object.keys(read(fine)).length, 4);
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
  assert.deepEqual(toFields(terms), fields.terms);
  assert.deepEqual(rest, {
    epoch: fields.epoch,
    items: fields.items,
    alpha: fields.alpha,
    regularization: fields.regularization,
    model: fromHex(fields.model),
    catalogue: fromHex(fields.catalogue),
    modelPatch: null,
    cataloguePatch: fromHex(protocol.patch.sha256),
    publicKey: fromHex(fields.public_key),
    tokenKey: null,
    nextTokenKey: null,
    opens: fields.opens,
    closes: fields.closes,
    epochsLeft: fields.epochs_left,
    reportsBehind: fields.reports_behind,
    start: {
      name: fields.start.name,
      people: fields.start.people,
      lastDate: fields.start.last_date,
      licence: fields.start.licence,
    },
  });
});

test("a finished model asks for nothing", async () => {
  const opened = await openManifest(fromHex(protocol.finished_manifest.signed), key);
  assert.equal(toHex(opened.hash), protocol.finished_manifest.hash);
  assert.deepEqual([opened.manifest.publicKey, opened.manifest.epochsLeft], [null, 0]);
  assert.ok(!isOpen(opened.manifest, opened.manifest.opens));
});

test("reports are asked for from the second it opens until the crowd is waited for no more", () => {
  const manifest = manifestWith({});
  const { opens, closes, terms } = manifest;
  const ends = closes + terms.hold;
  const asks = [opens - 0.001, opens, closes, ends - 0.001, ends].map((now) =>
    isOpen(manifest, now),
  );
  assert.deepEqual(asks, [false, true, true, true, false]);
});

test("every malformed manifest is refused", () => {
  assert.ok(protocol.refused.manifest.length > 50);
  for (const { label, bytes } of protocol.refused.manifest) {
    assert.throws(() => decodeManifest(fromHex(bytes)), ProtocolError, label);
  }
});

test("the shelf opens by the same keys, and every malformed one is refused", async () => {
  const shelf = await openShelf(fromHex(protocol.shelf.signed), key);
  assert.equal(shelf.hash, protocol.shelf.hash);
  assert.equal(shelf.catalogue, protocol.catalogue.sha256);
  assert.deepEqual(shelf.patch, fromHex(protocol.patch.sha256));
  assert.ok(protocol.refused.shelf.length > 10);
  for (const { label, bytes } of protocol.refused.shelf) {
    assert.throws(() => decodeShelf(fromHex(bytes)), ProtocolError, label);
  }
  for (const { label, bytes } of protocol.refused.signed_shelf) {
    await assert.rejects(openShelf(fromHex(bytes), key), UntrustedError, label);
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
  // The finished manifest is signed by the first key: a reader that has gone further refuses it.
  const old = fromHex(protocol.finished_manifest.signed);
  assert.equal(toHex((await openManifest(old, key)).key), protocol.verification_key);
  await assert.rejects(openManifest(old, next), /signed neither by the pinned verification key/);
});

test("no bit of a signed manifest can be turned", async () => {
  const signed = fromHex(protocol.manifest.signed);
  for (let at = 0; at < signed.length; at++) {
    const damaged = signed.slice();
    damaged[at] = (damaged[at] as number) ^ (1 << (at % 8));
    await assert.rejects(openManifest(damaged, key), UntrustedError, `byte ${at}`);
  }
});

test("no louder mechanism than the terms promise is accepted, however near it is", () => {
  const { terms } = decodeManifest(encodeUtf8(protocol.manifest.text));
  const share = `"loud_fraction":${terms.loudFraction}`;
  assert.ok(protocol.manifest.text.includes(share));
  for (const above of [1.01, 1.0001, 1 + 1e-9, 1 + Number.EPSILON]) {
    const quieter = `"loud_fraction":${terms.loudFraction / above}`;
    const text = encodeUtf8(protocol.manifest.text.replace(share, quieter));
    assert.throws(() => decodeManifest(text), ProtocolError, `${above}`);
  }
});

const file = fromHex(protocol.model.bytes);
const { items } = protocol.manifest.fields;
const { factors } = protocol.manifest.fields.terms;

test("the item matrix", () => {
  const wanted = Float32Array.from(protocol.model.values, fromFloatHex);
  assert.deepEqual(decodeItems(file, items, factors).values, wanted);
  assert.deepEqual(
    decodeItems(concatenate([Uint8Array.of(9), file]).subarray(1), items, factors).values,
    wanted,
  );
});

test("the smallest and the largest numbers of an item matrix", () => {
  const { bytes, values } = protocol.model_ends;
  const wanted = Float32Array.from(values, fromFloatHex);
  assert.deepEqual(decodeItems(fromHex(bytes), items, factors).values, wanted);
});

const { bases } = protocol.patch;
const wantedFile = fromHex(protocol.patch.file);

/** Make the file of a patch from one of its bases; null if it gives another one. */
async function applyPatch(patch: Uint8Array, base: Uint8Array): Promise<Uint8Array | null> {
  const part = choosePart(patch, ["none", toHex(await hashSha256(base))]);
  const result = part && applyPart(part, base, wantedFile.length);
  return result && isEqual(result, wantedFile) ? result : null;
}

test("a patch makes its file from each base, and a malformed one never does", async () => {
  const patch = fromHex(protocol.patch.bytes);
  const [first, second] = bases.map(fromHex) as [Uint8Array, Uint8Array];
  for (const base of [first, second]) {
    assert.deepEqual(await applyPatch(patch, base), wantedFile);
    const inside = concatenate([Uint8Array.of(9), patch]).subarray(1);
    assert.deepEqual(await applyPatch(inside, base), wantedFile);
  }
  assert.equal(await applyPatch(patch, wantedFile), null);
  assert.ok(protocol.refused.patch.length > 10);
  for (const { label, bytes } of protocol.refused.patch) {
    assert.equal(await applyPatch(fromHex(bytes), first), null, label);
  }
});

test("every malformed model file is refused", () => {
  assert.ok(protocol.refused.model.length > 15);
  for (const { label, bytes } of protocol.refused.model) {
    assert.throws(() => decodeItems(fromHex(bytes), items, factors), ProtocolError, label);
  }
});

test("the catalogue, with the number of each id", () => {
  const { items, rowsById: numbers } = decodeCatalogue(fromHex(protocol.catalogue.bytes));
  const decoded = items.map((item) => [item.id, item.title, item.tags]);
  assert.deepEqual(decoded, protocol.catalogue.items);
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

test("ids that objects have of their own are ids like any other", () => {
  const items = ["__proto__", "constructor"].map((id) => ({ id, title: id, tags: {} }));
  const { rowsById: numbers } = decodeCatalogue(encodeUtf8(JSON.stringify({ version: 2, items })));
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
const privateKey = await hpkeSuite.kem.deserializePrivateKey(fromHex(protocol.sealing.private_key));

test("what the other implementation sealed opens here", async () => {
  const sealed = concatenate(protocol.sealing.sealed.map(fromHex));
  assert.deepEqual(await openSealed(sealed, privateKey, hash), protocol.reports.values);
  assert.equal(toHex(concatenate([HPKE_INFO_PREFIX, hash])), protocol.sealing.info);
});

test("what is sealed here opens, in its order, to the last bit", async () => {
  const reports = Uint32Array.of(0, 1, 23, 2 ** 31, 2 ** 32 - 1);
  const sealed = await sealReports(reports, publicKey, hash);
  assert.equal(sealed.length, SEALED_REPORT_BYTES * reports.length);
  assert.deepEqual(await openSealed(sealed, privateKey, hash), [...reports]);
});

test("no two sealed reports are alike, not even of the same report", async () => {
  const sealed = await sealReports(new Uint32Array(20), publicKey, hash);
  const pieces = Array.from({ length: 20 }, (_, at) =>
    sealed.slice(SEALED_REPORT_BYTES * at, SEALED_REPORT_BYTES * (at + 1)),
  );
  assert.equal(new Set(pieces.map((piece) => toHex(piece.slice(0, 32)))).size, 20);
  assert.equal(new Set(pieces.map((piece) => toHex(piece.slice(32)))).size, 20);
});

test("under another manifest, another key, or with a bit turned it does not open", async () => {
  const sealed = await sealReports(Uint32Array.of(5), publicKey, hash);
  await assert.rejects(openSealed(sealed, privateKey, new Uint8Array(32)));
  const { privateKey: other } = await hpkeSuite.kem.generateKeyPair();
  await assert.rejects(openSealed(sealed, other, hash));
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
    concatenate([publicKey, hash]),
  ]) {
    const attempt = sealReports(Uint32Array.of(1), wrong, hash);
    await assert.rejects(attempt, ProtocolError, toHex(wrong));
  }
});

const batch = {
  epoch: protocol.manifest.fields.epoch,
  manifestHash: fromHex(protocol.manifest.hash),
  id: fromHex(protocol.batch.id),
  sealed: concatenate(protocol.sealing.sealed.map(fromHex)),
};

test("the batch, byte for byte", async () => {
  const bytes = encodeBatch(batch);
  assert.equal(toHex(bytes), protocol.batch.bytes);
  assert.equal(toHex(await hashSha256(bytes)), protocol.batch.sha256);
  assert.equal(bytes.length, protocol.manifest.batch_size);
  assert.equal(batch.id.length, BATCH_ID_BYTES);
});
