/** A crash anywhere: one batch an epoch, charged once, sent again byte for byte. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { IDBFactory } from "fake-indexeddb";
import { fromHex } from "../src/bytes.js";
import { SottovoceError, StoreError } from "../src/errors.js";
import { abortAfter, Life, makeMortal, onTransaction, PowerCut } from "./mortal.js";
import { seeded } from "./vectors.js";
import {
  AT_ONCE,
  charges,
  DAY,
  distinct,
  epochOf,
  hashOf,
  IS_NIGHTLY,
  item,
  rounds,
  toBatches,
  World,
} from "./world.js";

const FOREVER = 1e9;

/** Run the program until it ends or its life does; return its outcome, or null after a power cut. */
async function syncFor(world: World, steps: number, turns = 0): Promise<string | null> {
  const life = new Life(steps, turns);
  try {
    const client = await world.open(makeMortal(life, world.factory));
    return (await client.sync({ jitter: 60 })).outcome;
  } catch (error) {
    assert.ok(error instanceof PowerCut || error instanceof SottovoceError, String(error));
    assert.equal(life.left, 0, String(error));
    return null;
  }
}

async function startAgain(world: World): Promise<void> {
  world.factory = new IDBFactory();
  world.received.length = 0;
  world.now = 1.5 * DAY;
  await world.publish(1);
  const client = await world.accepted();
  await client.record([item(1), item(2)]);
  client.close();
}

/** Check that what left was charged, with one batch and one charge an epoch. */
async function checkBatches(world: World): Promise<void> {
  const left = distinct(world.received);
  const purposes = new Set((await charges(world)).map((charge) => charge.purpose));
  for (const batch of left) {
    assert.ok(purposes.has(await hashOf(fromHex(batch))), "something left that was not paid for");
  }
  const epochs = left.map(epochOf);
  assert.equal(new Set(epochs).size, epochs.length, "two batches in one epoch");
  assert.equal(new Set((await charges(world)).map((charge) => charge.epoch)).size, purposes.size);
}

for (const turns of [0, 6]) {
  test(`a crash after every step of a sync, ${turns} turns into a transaction`, async (t) => {
    const world = await World.begin(t);
    let [steps, diedSent, outcome]: [number, number, string | null] = [0, 0, null];
    for (; outcome === null; steps += IS_NIGHTLY ? 1 : 3) {
      await startAgain(world);
      outcome = await syncFor(world, steps, turns);
      await checkBatches(world);
      diedSent += outcome === null && world.received.length === 1 ? 1 : 0;
      const second = await syncFor(world, FOREVER);
      assert.equal(second, outcome === null && second === "sent" ? "sent" : "already sent");
      assert.equal(distinct(world.received).length, 1);
      const purpose = await hashOf(world.received[0] as Uint8Array);
      const purposes = (await charges(world)).map((charge) => charge.purpose);
      assert.deepEqual(purposes, [purpose]);
    }
    assert.equal(outcome, "sent");
    assert.ok(steps > (turns === 0 ? 40 : 20), `${steps} steps`);
    assert.ok(diedSent >= (IS_NIGHTLY ? 2 : 1), "after the batch arrived, before that was noted");
  });
}

test("epochs, crashes, silence, refusals, pauses, forgetting, in any order", async (t) => {
  const world = await World.begin(t);
  const random = seeded(2);
  const lost = (response: { destroy(): void }, call: string, body: Uint8Array) => {
    if (call === "batches") {
      world.received.push(body);
      response.destroy();
    }
    return call === "batches";
  };
  const rules: (() => Promise<unknown>)[] = [
    () => syncFor(world, Math.floor(random() * 40)),
    () => syncFor(world, FOREVER),
    () => failing(world, toBatches(503)),
    () => failing(world, toBatches(410)),
    () => failing(world, lost),
    () => timePasses(world, random() < 0.5 ? DAY / 2 : DAY),
    async () => (await world.open()).pause(random() < 0.4),
    async () => (await world.open()).forget(),
  ];
  for (let round = 0; round < rounds(6); round += 1) {
    await startAgain(world);
    for (let step = 0; step < 15; step += 1) {
      await rules[Math.floor(random() * rules.length)]?.();
      await checkBatches(world);
    }
  }
});

async function failing(world: World, answer: World["answer"]): Promise<void> {
  world.answer = answer;
  await (await world.open())
    .sync(AT_ONCE)
    .catch((error) => assert.ok(error instanceof SottovoceError));
  world.answer = () => false;
}

async function timePasses(world: World, seconds: number): Promise<void> {
  world.now += seconds;
  await world.publish(Math.min(Math.floor(world.now / DAY), 8));
}

test("a disk that is full at any write sends nothing that it could not note", async (t) => {
  const world = await World.begin(t);
  const full = [0, 0, 0];
  for (const [write] of full.entries()) {
    for (let turns = 0; turns < 12; turns += 2) {
      await startAgain(world);
      const outcome = await syncWithFullDisk(world, write, turns);
      await checkBatches(world);
      const arrived = distinct(world.received);
      assert.match((await (await world.open()).sync(AT_ONCE)).outcome, /^(already )?sent$/);
      assert.deepEqual([distinct(world.received).length, (await charges(world)).length], [1, 1]);
      assert.deepEqual(arrived, distinct(world.received).slice(0, arrived.length));
      full[write] = (full[write] ?? 0) + (outcome === "full" ? 1 : 0);
    }
  }
  // Fetching, keeping, finishing: each was cut short, and at more than one place.
  assert.ok(
    full.every((times) => times >= 2),
    String(full),
  );
});

/** Sync with a disk that is full at the write of this number; return the outcome, or "full". */
async function syncWithFullDisk(world: World, write: number, turns: number): Promise<string> {
  let writes = -2; // opening is the first
  const indexedDB = onTransaction(world.factory, (begin, mode) => {
    writes += mode === "readwrite" ? 1 : 0;
    const cut = mode === "readwrite" && writes === write;
    return cut ? abortAfter(begin(), turns, "QuotaExceededError") : begin();
  });
  try {
    return (await (await world.open({ indexedDB })).sync(AT_ONCE)).outcome;
  } catch (error) {
    assert.ok(error instanceof StoreError, String(error));
    assert.match(error.message, /QuotaExceededError/);
    return "full";
  }
}
