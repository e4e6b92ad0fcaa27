import assert from "node:assert/strict";
import { test } from "node:test";
import { BATCH_ID, encodeBatch } from "../src/batch.js";
import { concat, fromHex, sha256, toHex } from "../src/bytes.js";
import { SettingsError } from "../src/errors.js";
import { protocol } from "./vectors.js";

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

test("the last epoch fits", () => {
  const bytes = encodeBatch({ ...batch, epoch: 2 ** 32 - 1 });
  assert.deepEqual(bytes.slice(4, 8), Uint8Array.of(255, 255, 255, 255));
});

test("what is no batch is not encoded", () => {
  const short = new Uint8Array(15);
  for (const change of [{ id: short }, { manifestHash: short }, { sealed: short }]) {
    assert.throws(() => encodeBatch({ ...batch, ...change }), SettingsError);
  }
  assert.throws(() => encodeBatch({ ...batch, sealed: new Uint8Array() }), SettingsError);
});
