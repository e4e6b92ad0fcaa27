/** Epochs of the past: believed no more than the present one. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_SIGNED_MANIFEST } from "../src/signed.js";
import { encodeModel, FACTORS, ITEMS, itemMatrix } from "./published.js";
import { dump } from "./stored.js";
import { newSigningKey, told } from "./world.js";

test("the model of an earlier epoch, as signed, and nothing of it stored", async (t) => {
  const [world, client] = await told(t);
  const before = await dump(world.factory);
  const release = await client.release(1);
  assert.equal(release?.manifest.epoch, 1);
  assert.deepEqual(release?.V.values, itemMatrix(1));
  assert.deepEqual(world.calls(), ["manifests", "models"]);
  assert.deepEqual(await dump(world.factory), before);
});

test("an epoch that the proxy has no more is null", async (t) => {
  const [world, client] = await told(t);
  assert.equal(await client.release(7), null);
  const { model } = (await world.signed(1)).fields;
  world.files.delete(String(model));
  assert.equal(await client.release(1), null);
});

test("an earlier epoch is believed no more than the present one", async (t) => {
  const [world, client] = await told(t);
  const other = await world.signed(1, {}, await newSigningKey());
  world.earlier.set(1, other.raw);
  await assert.rejects(client.release(1), /not signed by the server/);
  world.earlier.set(1, (await world.signed(2)).raw);
  await assert.rejects(client.release(1), /epoch 1 was asked for, and that of epoch 2 came/);
  const { raw, fields } = await world.signed(1);
  world.earlier.set(1, raw);
  world.files.set(String(fields.model), encodeModel(itemMatrix(5), ITEMS, FACTORS));
  await assert.rejects(client.release(1), /other bytes/);
  world.files.set(String(fields.model), new Uint8Array(5000));
  await assert.rejects(client.release(1), /longer than 4704 bytes/);
  world.earlier.set(1, new Uint8Array(MAX_SIGNED_MANIFEST + 1));
  await assert.rejects(client.release(1), /longer than 19525 bytes/);
});

test("of the present epoch nothing is asked, but where it was forgotten", async (t) => {
  const [world, client] = await told(t);
  assert.deepEqual((await client.release(2))?.V.values, itemMatrix(2));
  assert.deepEqual(world.requests, []);
  await client.forget();
  world.earlier.set(2, (await world.signed(2, { reports_behind: 1 })).raw);
  await assert.rejects(client.release(2), /two different manifests of epoch 2/);
});
