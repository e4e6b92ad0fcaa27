/** One sync: what leaves, when, how often, and what it costs. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { toHex } from "../src/bytes.js";
import { makeReports } from "../src/mechanism/index.js";
import { encodeModel, FACTORS, ITEMS, item, itemMatrix } from "./published.js";
import { charges, dump } from "./stored.js";
import {
  AT_ONCE,
  COST,
  DAY,
  distinct,
  EPSILON,
  hashOf,
  LEAD,
  REPORTS,
  sameWords,
  TERMS,
  World,
} from "./world.js";

test("a first sync learns and takes part", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  assert.deepEqual(await client.sync(AT_ONCE), {
    epoch: 1,
    outcome: "sent",
    lost: null,
    spent: COST,
    remaining: 100 - COST,
    sentence: "The batch of epoch 1 was sent.",
  });
  assert.deepEqual(world.calls(), ["manifest", "models", "catalogues", "batches"]);
  const [charge, ...more] = await charges(world);
  assert.equal(more.length, 0);
  assert.equal(charge?.purpose, await hashOf(world.received[0] as Uint8Array));
  assert.deepEqual([charge?.epoch, charge?.epsilon, charge?.reports], [1, EPSILON, REPORTS]);
  assert.equal(charge?.training, TERMS.training);
});

test("a batch opens to exactly the reports of its words", async (t) => {
  const world = await World.begin(t);
  const client = await world.client({ words: sameWords });
  const { epoch } = await client.sync(AT_ONCE);
  const sent = world.received[0] as Uint8Array;
  const edition = await client.edition(epoch);
  assert.ok(edition);
  const made = await makeReports(edition.manifest, edition.V, [3, 7, 20], sameWords(REPORTS));
  assert.deepEqual(await world.opened(sent), [...made.reports]);
  assert.equal(sent.length, 56 + 52 * REPORTS);
  assert.ok(!Buffer.from(sent).includes("secret-item"));
  assert.ok(!Buffer.from(sent).includes(Buffer.from(made.reports.buffer)));
});

test("who has no history takes part like everybody", async (t) => {
  const world = await World.begin(t);
  const all = Array.from({ length: ITEMS }, (_, n) => item(n));
  for (const [n, items] of [[], [item(1)], all, ["not known"]].entries()) {
    const client = await world.accepted({ name: `person-${n}` });
    await client.record(items);
    assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  }
  assert.deepEqual(
    world.received.map((batch) => batch.length),
    Array(4).fill(56 + 52 * REPORTS),
  );
  assert.equal(new Set(world.received.map((batch) => toHex(batch.subarray(40, 56)))).size, 4);
});

test("once sent an epoch is over for this device", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.sync(AT_ONCE);
  await client.record([item(30)]);
  const again = await client.sync(AT_ONCE);
  assert.deepEqual([again.outcome, again.spent], ["already sent", COST]);
  assert.equal(again.sentence, "The batch of epoch 1 had been sent before; nothing more was.");
  assert.deepEqual(world.calls().slice(4), ["manifest"]);
  assert.equal((await charges(world)).length, 1);
});

test("every epoch has its own batch and keeps only its own files", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  for (const epoch of [1, 2, 3]) {
    world.now = (epoch + 0.5) * DAY;
    await world.publish(epoch);
    assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  }
  assert.equal(distinct(world.received).length, 3);
  assert.deepEqual(
    (await charges(world)).map((charge) => charge.epoch),
    [1, 2, 3],
  );
  const model = await hashOf(encodeModel(itemMatrix(3), ITEMS, FACTORS));
  const names = ((await dump(world.factory)).files as { name: string }[]).map((file) => file.name);
  assert.equal(names.length, 3);
  assert.ok(names.includes(model));
  assert.equal(world.calls().filter((call) => call === "catalogues").length, 1);
});

test("the bytes are gone once they arrived, and what was shown of them is not", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.sync(AT_ONCE);
  const [row] = (await dump(world.factory)).batches as { state: string; bytes: unknown }[];
  assert.deepEqual([row?.state, row?.bytes], ["sent", null]);
  assert.deepEqual((await client.lastBatch())?.bytes, world.received[0]);
});

// When nothing is to be sent.

for (const [what, now, changes, outcome] of [
  ["before it opens", DAY - 1, {}, "not open"],
  ["when it has closed", 2 * DAY, {}, "not open"],
  ["of a finished model", 1.5 * DAY, { public_key: null }, "nothing asked"],
] as const) {
  test(`nothing is made ${what}`, async (t) => {
    const world = await World.begin(t, changes);
    world.now = now;
    const client = await world.client();
    assert.equal((await client.sync(AT_ONCE)).outcome, outcome);
    assert.equal((await client.recommend(3)).length, 3);
    assert.deepEqual((await client.status()).batches, { charged: 0, sent: 0, dropped: 0 });
    assert.equal(await client.lastBatch(), null);
    assert.deepEqual(world.received, []);
    assert.deepEqual(await charges(world), []);
  });
}

test("the first and the last moment count", async (t) => {
  const world = await World.begin(t);
  for (const now of [DAY, 2 * DAY - LEAD - 0.501]) {
    world.now = now;
    const client = await world.accepted({ name: `at-${now}` });
    assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  }
});

test("a batch that is ready too late is neither kept nor paid for", async (t) => {
  const world = await World.begin(t);
  const words = (reports: number) => {
    world.now = 2 * DAY;
    return sameWords(reports);
  };
  const client = await world.client({ words });
  assert.equal((await client.sync(AT_ONCE)).outcome, "not open");
  assert.deepEqual([world.received, await charges(world)], [[], []]);
});

test("nor is one of an epoch that is no longer the present one", async (t) => {
  const world = await World.begin(t);
  const other = await world.open();
  let learning: Promise<unknown> = Promise.resolve();
  const client = await world.client({
    words: (reports) => {
      learning = world.publish(2, { opens: 0, closes: 9 * DAY }).then(() => other.refresh());
      return sameWords(reports);
    },
    sleep: async (seconds) => {
      await learning;
      world.now += seconds;
    },
  });
  await client.sync(AT_ONCE).catch(() => undefined);
  await learning;
  assert.ok((await charges(world)).length <= world.received.length, "nothing is paid for in vain");
});
