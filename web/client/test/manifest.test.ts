import assert from "node:assert/strict";
import { test } from "node:test";
import { concat, fromHex, toHex, utf8 } from "../src/bytes.js";
import { ProtocolError, UntrustedError } from "../src/errors.js";
import { asksForReports, batchSize, decodeManifest } from "../src/manifest.js";
import { openManifest } from "../src/signed.js";
import { writtenTerms } from "../src/terms.js";
import { manifestWith, protocol } from "./vectors.js";

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
  assert.equal(batchSize(opened.manifest), protocol.manifest.batch_size);
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

test("another key, and a key that is none, open nothing", async () => {
  const signed = fromHex(protocol.manifest.signed);
  for (const wrong of [fromHex(protocol.sealing.public_key), key.subarray(1), concat([key, key])]) {
    await assert.rejects(openManifest(signed, wrong), UntrustedError);
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

test("a written 3.0 reads as 3, as the protocol allows, and numbers keep all of their bits", () => {
  const text = protocol.manifest.text;
  const read = (from: string, to: string) => decodeManifest(utf8(text.replace(from, to)));
  assert.equal(read('"epoch":3', '"epoch":3.0').epoch, 3);
  assert.equal(
    read('"epsilon":2.5', '"epsilon":2.5000000000000004').terms.epsilon,
    2.5000000000000004,
  );
  assert.equal(read('"alpha":0.1', '"alpha":-0.0').alpha, 0);
});
