import assert from "node:assert/strict";
import { test } from "node:test";
import { concat, fromHex, toHex } from "../src/bytes.js";
import { ProtocolError } from "../src/errors.js";
import { INFO, SEALED, sealReports } from "../src/sealing.js";
import { openSealed } from "./opening.js";
import { protocol } from "./vectors.js";

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
