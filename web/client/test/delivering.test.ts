/** From charged to sent: resent byte for byte, given up in time, stopped when its owner says so. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { RefusedError, UnavailableError } from "../src/errors.js";
import { charges, dump } from "./stored.js";
import {
  AT_ONCE,
  COST,
  DAY,
  distinct,
  epochOf,
  hashOf,
  toBatches,
  World,
  whileWaiting,
} from "./world.js";

// A proxy that is away, closed, or says no.

test("the same bytes are sent again", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  world.answer = (response, call, body) => {
    if (call === "batches") {
      world.received.push(body); // it arrived, but the answer was lost
      response.destroy();
    }
    return call === "batches";
  };
  await assert.rejects(client.sync(AT_ONCE), UnavailableError);
  world.answer = toBatches(503);
  for (const _ of [1, 2, 3]) {
    await assert.rejects(client.sync(AT_ONCE), UnavailableError);
  }
  world.answer = () => false;
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  assert.equal(world.received.length, 2);
  assert.equal(distinct(world.received).length, 1);
  const bodies = world.requests.filter((request) => request.method === "POST");
  assert.deepEqual([bodies.length, distinct(bodies.map((request) => request.body)).length], [5, 1]);
  const purpose = await hashOf(world.received[0] as Uint8Array);
  assert.deepEqual(
    (await charges(world)).map((charge) => charge.purpose),
    [purpose],
  );
});

const WRONG_EPOCH = JSON.stringify({ type: "urn:sottovoce:wrong-epoch", status: 409 });

for (const [status, body] of [
  [410, ""],
  [409, WRONG_EPOCH],
] as const) {
  test(`a batch that comes too late (${status}) stays spent`, async (t) => {
    const world = await World.begin(t);
    const client = await world.client();
    world.answer = toBatches(status, body);
    for (const _ of [1, 2]) {
      const synced = await client.sync(AT_ONCE);
      assert.deepEqual([synced.outcome, synced.spent, synced.lost], ["too late", COST, null]);
      assert.match(synced.sentence, /stays spent/);
    }
    const [row] = (await dump(world.factory)).batches as { state: string; bytes: unknown }[];
    assert.deepEqual([row?.state, row?.bytes], ["dropped", null]);
    assert.equal(world.requests.filter((request) => request.method === "POST").length, 1);
    assert.equal((await client.lastBatch())?.state, "dropped");
  });
}

test("a left-over of a closed epoch makes way", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  world.answer = toBatches(503);
  await assert.rejects(client.sync(AT_ONCE), UnavailableError);
  world.answer = () => false;
  world.now += DAY;
  await world.publish(2);
  const synced = await client.sync(AT_ONCE);
  assert.deepEqual([synced.epoch, synced.outcome, synced.lost], [2, "sent", 1]);
  assert.match(
    synced.sentence,
    /^The batch of epoch 2 was sent\. The batch of epoch 1 came too late/,
  );
  assert.deepEqual(
    (await charges(world)).map((charge) => charge.epoch),
    [1, 2],
  );
  assert.deepEqual(distinct(world.received).map(epochOf), [2]);
});

test("a refusal keeps the batch until its epoch is over", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  world.answer = toBatches(403);
  for (const _ of [1, 2]) {
    await assert.rejects(client.sync(AT_ONCE), RefusedError);
  }
  assert.deepEqual((await client.status()).batches, { charged: 1, sent: 0, dropped: 0 });
  world.now += DAY;
  world.answer = () => false;
  await world.publish(2);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
});

test("the proxy is not sent a batch before the time that it named, not after a reload either", async (t) => {
  const world = await World.begin(t);
  world.answer = toBatches(429, "", { "retry-after": "90" });
  await assert.rejects((await world.client()).sync(AT_ONCE), {
    name: "PostponedError",
    message: /its cost is charged already/,
    retryAfter: 90,
  });
  world.requests.length = 0;
  world.answer = () => false;
  world.now += 88.5;
  const reloaded = await world.open();
  await assert.rejects(reloaded.sync(AT_ONCE), { name: "PostponedError", retryAfter: 1 });
  const methods = world.requests.map((request) => request.method);
  assert.deepEqual(methods, ["GET"], "what is published is fetched all the same");
  world.now += 1;
  assert.equal((await reloaded.sync(AT_ONCE)).outcome, "sent");
});

test("a postponed batch is given up when a later epoch is published, and does not hold up that", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  world.answer = toBatches(429, "", { "retry-after": "3600" });
  await assert.rejects(client.sync(AT_ONCE), { name: "PostponedError" });
  world.answer = () => false;
  world.now += 60;
  await world.publish(2, { opens: Math.floor(world.now) });
  const synced = await client.sync(AT_ONCE);
  assert.deepEqual([synced.epoch, synced.outcome, synced.lost], [2, "sent", 1]);
  assert.deepEqual((await client.status()).batches, { charged: 0, sent: 1, dropped: 1 });
  assert.deepEqual(distinct(world.received).map(epochOf), [2]);
});

test("a proxy that asks for more patience than an epoch has is asked in the next one", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  world.answer = toBatches(503, "", { "retry-after": "999999999" });
  await assert.rejects(client.sync(AT_ONCE), UnavailableError);
  world.answer = () => false;
  await assert.rejects(client.sync(AT_ONCE), { name: "PostponedError" });
  world.now += DAY;
  await world.publish(2);
  const synced = await client.sync(AT_ONCE);
  assert.deepEqual([synced.outcome, synced.lost], ["sent", 1]);
});

// Forgetting on the way.

test("what is forgotten while it waits is not sent", async (t) => {
  const world = await World.begin(t);
  const client = await world.client({ sleep: whileWaiting(world, () => client.forget()) });
  assert.equal((await client.sync({ jitter: 60 })).outcome, "already charged");
  assert.deepEqual(world.received, []);
  assert.equal((await charges(world)).length, 1);
  assert.equal((await client.sync(AT_ONCE)).outcome, "already charged");
});

test("after forgetting, an epoch that was paid for is not paid for again", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.sync(AT_ONCE);
  await client.forget();
  const synced = await client.sync(AT_ONCE);
  assert.deepEqual([synced.outcome, synced.spent], ["already charged", COST]);
  assert.match(synced.sentence, /forgotten since; nothing is reported in this epoch again/);
  world.now += DAY;
  await world.publish(2);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  assert.deepEqual(
    (await charges(world)).map((charge) => charge.epoch),
    [1, 2],
  );
});
