/** What the owner chose holds at every moment: the pause, the limit, what they touched. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { makeReports } from "../src/mechanism/index.js";
import { charges } from "./stored.js";
import {
  AT_ONCE,
  COST,
  DAY,
  distinct,
  epochOf,
  LEAD,
  REPORTS,
  sameWords,
  toBatches,
  World,
  whileWaiting,
} from "./world.js";

test("a pause holds and ends", async (t) => {
  const world = await World.begin(t);
  const client = await world.client({ paused: true });
  const synced = await client.sync(AT_ONCE);
  assert.equal(synced.outcome, "paused");
  assert.equal(synced.sentence, "Reporting is paused; nothing was sent.");
  assert.ok(await client.recommend(2));
  assert.deepEqual(await charges(world), []);
  await client.pause(false);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
});

test("a pause is a yes or a no: nothing else ends one by mistake", async (t) => {
  const client = await (await World.begin(t)).client({ paused: true });
  for (const odd of [undefined, null, 0, "yes"]) {
    await assert.rejects(client.pause(odd as unknown as boolean), { name: "SettingsError" });
  }
  assert.equal((await client.status()).paused, true);
});

test("a pause while the batch is being sealed throws it away, unpaid", async (t) => {
  const world = await World.begin(t);
  let pausing: Promise<void> = Promise.resolve();
  const client = await world.client({
    words: (reports) => {
      pausing = client.pause(true);
      return sameWords(reports);
    },
  });
  assert.equal((await client.sync(AT_ONCE)).outcome, "paused");
  await pausing;
  assert.deepEqual([world.received, await charges(world)], [[], []]);
  assert.equal(await client.lastBatch(), null);
});

test("a pause while the batch waits keeps it here", async (t) => {
  const world = await World.begin(t);
  const client = await world.client({ sleep: whileWaiting(world, () => client.pause(true)) });
  assert.equal((await client.sync({ jitter: 60 })).outcome, "paused");
  assert.equal((await client.sync(AT_ONCE)).outcome, "paused");
  assert.deepEqual(world.received, []);
  const waiting = await client.lastBatch();
  assert.equal(waiting?.state, "charged");
  await client.pause(false);
  const resumed = await client.sync(AT_ONCE);
  assert.deepEqual([resumed.outcome, resumed.spent], ["sent", COST]);
  assert.deepEqual(world.received, [waiting?.bytes]);
});

test("a batch that a visit left behind stays here if its owner pauses while the next one waits to send it", async (t) => {
  const world = await World.begin(t);
  const closed = whileWaiting(world, () => Promise.reject(new Error("the page was closed")));
  await assert.rejects((await world.client({ sleep: closed })).sync({ jitter: 60 }), /closed/);
  world.now -= LEAD / 2; // its moment still lies ahead
  const next = await world.open({ sleep: whileWaiting(world, () => next.pause(true)) });
  assert.equal((await next.sync({ jitter: 60 })).outcome, "paused");
  assert.deepEqual(world.received, []);
  assert.equal((await next.lastBatch())?.state, "charged");
});

test("a paused batch of an earlier epoch is given up", async (t) => {
  const world = await World.begin(t);
  const client = await world.client({ sleep: whileWaiting(world, () => client.pause(true)) });
  await client.sync({ jitter: 60 });
  world.now += DAY;
  await world.publish(2);
  assert.equal((await client.sync(AT_ONCE)).lost, 1);
  await client.pause(false);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  assert.deepEqual(distinct(world.received).map(epochOf), [2]);
});

test("while an old batch waits no second one is made", async (t) => {
  const world = await World.begin(t);
  const client = await world.client({ sleep: whileWaiting(world, () => client.pause(true)) });
  await client.sync({ jitter: 60 });
  await world.publish(2, { opens: DAY, closes: 3 * DAY });
  world.answer = async (_, call) => {
    await (call === "manifest" && client.pause(false));
    return false;
  };
  assert.equal((await client.sync(AT_ONCE)).outcome, "paused");
  assert.deepEqual((await client.status()).batches, { charged: 1, sent: 0, dropped: 0 });
  world.answer = toBatches(410);
  assert.equal((await client.sync(AT_ONCE)).lost, 1);
  assert.deepEqual((await client.status()).batches, { charged: 0, sent: 0, dropped: 2 });
});

test("at the limit reporting stops and recommending goes on", async (t) => {
  const world = await World.begin(t);
  const client = await world.client({ limit: COST + 1 });
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  world.now += DAY;
  await world.publish(2);
  for (const _ of [1, 2]) {
    const { outcome, spent, remaining } = await client.sync(AT_ONCE);
    assert.deepEqual([outcome, spent, remaining], ["limit reached", COST, 1]);
  }
  assert.equal((await client.recommend(3)).length, 3);
  assert.equal(world.received.length, 1);
  assert.equal((await client.lastBatch())?.epoch, 1);
});

test("another limit lets it report, in the same epoch too", async (t) => {
  const world = await World.begin(t);
  const client = await world.client({ limit: COST - 1 });
  assert.equal((await client.sync(AT_ONCE)).outcome, "limit reached");
  assert.deepEqual((await client.status()).batches, { charged: 0, sent: 0, dropped: 0 });
  await client.setLimit(COST);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  assert.equal((await client.status()).limit, COST);
});

test("the limit is looked at before any coin is tossed", async (t) => {
  const world = await World.begin(t);
  const never = () => assert.fail("a coin was tossed");
  const client = await world.client({ limit: COST - 1, words: never, entropy: never });
  assert.equal((await client.sync()).outcome, "limit reached");
});

test("a limit that is lowered while the batch is sealed counts", async (t) => {
  const world = await World.begin(t);
  const client = await world.client({
    words: (reports) => {
      client.setLimit(COST - 1);
      return sameWords(reports);
    },
  });
  assert.equal((await client.sync(AT_ONCE)).outcome, "limit reached");
  assert.deepEqual([world.received, await charges(world)], [[], []]);
});

test("what is changed while the batch is sealed goes into it", async (t) => {
  const world = await World.begin(t);
  let sealed = 0;
  const client = await world.client({
    words: (reports) => {
      sealed += 1;
      if (sealed === 1) {
        client.forget();
      }
      return sameWords(reports);
    },
  });
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  assert.equal(sealed, 2);
  const release = await client.release(1);
  assert.ok(release);
  const made = await makeReports(release.manifest, release.V, [], sameWords(REPORTS));
  assert.deepEqual(await world.opened(world.received[0] as Uint8Array), [...made.reports]);
  assert.equal((await charges(world)).length, 1);
});
