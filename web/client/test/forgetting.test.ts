/** Forgetting: what goes, and what stays because it was spent. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { IDBFactory } from "fake-indexeddb";
import { StoreError } from "../src/errors.js";
import { item } from "./published.js";
import { charges, dump } from "./stored.js";
import { AT_ONCE, COST, distinct, TERMS, toBatches, World } from "./world.js";

test("forgetting leaves settings and charges, and no trace of an item", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.record(Array.from({ length: 200 }, (_, n) => `a-very-private-thing-${n}`));
  world.answer = toBatches(503);
  await assert.rejects(client.sync(AT_ONCE));
  const waiting = await client.lastBatch();
  assert.equal(waiting?.state, "charged");
  const before = await dump(world.factory);
  for (const store of ["settings", "history", "files", "batches", "charges", "plans", "shown"]) {
    assert.ok((before[store] ?? []).length > 0, store);
  }
  await client.forget();
  const { settings, charges: paid, plans, ...others } = await dump(world.factory);
  assert.deepEqual(others, { history: [], files: [], batches: [], shown: [] });
  assert.deepEqual(paid, before.charges);
  const [was, is] = [before.settings?.[0], settings?.[0]] as { generation: string }[];
  assert.notEqual(is?.generation, was?.generation);
  assert.deepEqual({ ...is, generation: "" }, { ...was, generation: "" });
  assert.deepEqual(plans, before.plans);
  assert.deepEqual(Object.keys(settings?.[0] as object).sort(), [
    ...[
      "generation",
      "key",
      "limit",
      "newest",
      "only",
      "paused",
      "proxy",
      "since",
      "terms",
      "trusted",
    ],
  ]);
  await client.record([item(9)]);
  // Nor of how much there was.
  assert.deepEqual((await dump(world.factory)).history, [
    { only: 1, items: [{ id: item(9), moment: 1 }] },
  ]);
});

test("what was spent stays spent and what was agreed stays agreed", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.sync(AT_ONCE);
  await client.pause(true);
  await client.forget();
  const status = await client.status();
  assert.deepEqual([status.touched, status.epoch, status.manifest], [0, 1, null]);
  assert.deepEqual(status.batches, { charged: 0, sent: 0, dropped: 0 });
  assert.deepEqual([status.spent, status.paused, status.terms], [COST, true, TERMS]);
  assert.equal(await client.lastBatch(), null);
  await assert.rejects(client.recommend(), StoreError);
  await assert.rejects(client.catalogue(), StoreError);
  await client.pause(false);
  assert.equal((await client.sync(AT_ONCE)).outcome, "already charged");
  assert.equal((await client.recommend(1)).length, 1);
  assert.deepEqual([distinct(world.received).length, (await charges(world)).length], [1, 1]);
});

test("two databases are two clients", async (t) => {
  const world = await World.begin(t);
  await (await world.client({ name: "one" })).sync(AT_ONCE);
  assert.equal((await (await world.open({ name: "two" })).status()).spent, 0);
  world.factory = new IDBFactory();
  assert.equal((await (await world.open({ name: "one" })).status()).spent, 0);
});
