/** Two tabs at once, with the browser's locks and without: one batch, one charge. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { drawSystemWords } from "../src/coin.js";
import { seeded } from "./vectors.js";
import { Locks, Virtual } from "./virtual.js";
import {
  AT_ONCE,
  COST,
  charges,
  type DeviceOptions,
  distinct,
  hashOf,
  item,
  itemMatrix,
  reply,
  rounds,
  World,
} from "./world.js";

const newLocks = () => new Locks(new Virtual()) as unknown as LockManager;

async function ticks(count: number): Promise<void> {
  for (let tick = 0; tick < count; tick += 1) {
    await new Promise((done) => setImmediate(done));
  }
}

/** Return a fetch that takes its time before and after. */
function hesitant(random: () => number): typeof fetch {
  return async (input, init) => {
    await ticks(random() * 12);
    const response = await fetch(input, init);
    await ticks(random() * 12);
    return response;
  };
}

for (const locked of [false, true]) {
  test(`tabs that sync at once, ${locked ? "with" : "without"} locks`, async (t) => {
    const world = await World.begin(t);
    const random = seeded(locked ? 3 : 4);
    const [all, least] = [rounds(8), rounds(2)];
    let racing = 0;
    for (let round = 0; round < all; round += 1) {
      const name = `round-${round}`;
      let sealed = 0;
      const options: DeviceOptions = {
        name,
        locks: locked ? newLocks() : null,
        fetch: hesitant(random),
        sleep: () => ticks(random() * 12),
        words: (reports) => {
          sealed += 1;
          return drawSystemWords(reports);
        },
      };
      world.received.length = 0;
      const tabs = await Promise.all([1, 2, 3].map(() => world.accepted(options)));
      await tabs[0]?.record([item(round % 50)]);
      const outcomes = await Promise.all(
        tabs.map(async (tab) => {
          await ticks(random() * 12);
          return (await tab.sync({ jitter: 1 })).outcome;
        }),
      );
      assert.equal(distinct(world.received).length, 1);
      const [charge, ...more] = await charges(world, name);
      assert.deepEqual(more, []);
      assert.equal(charge?.purpose, await hashOf(world.received[0] as Uint8Array));
      assert.ok(outcomes.includes("sent"));
      assert.ok(outcomes.every((outcome) => ["sent", "already sent"].includes(outcome)));
      const status = await tabs[0]?.status();
      assert.deepEqual(
        [status?.spentEpsilon, status?.batches],
        [COST, { charged: 0, sent: 1, dropped: 0 }],
      );
      racing += sealed > 1 ? 1 : 0;
      if (locked) {
        assert.deepEqual([world.received.length, sealed], [1, 1]);
      }
    }
    // Without locks the race is a real one: more than one tab sealed a batch, and one was kept.
    assert.ok(locked ? racing === 0 : racing >= least, `${racing} races`);
  });
}

test("a tab that sleeps until its moment holds no other tab up", async (t) => {
  const world = await World.begin(t);
  const locks = newLocks();
  let [wake, asleep] = [() => {}, () => {}];
  const sleeping = new Promise<void>((done) => {
    asleep = done;
  });
  const sleep = (seconds: number) => {
    if (seconds < 60) return Promise.resolve();
    asleep();
    return new Promise<void>((done) => {
      wake = done;
    });
  };
  // Half of the jitter, so that the tab sleeps for long.
  const entropy = (size: number) => new Uint8Array(size).fill(128);
  const slow = (await world.client({ locks, sleep, entropy })).sync({ jitter: 600 });
  await sleeping;
  assert.equal((await (await world.open({ locks })).sync(AT_ONCE)).outcome, "sent");
  wake();
  assert.equal((await slow).outcome, "already sent");
  assert.equal(world.received.length, 1);
});

test("what one tab has sent is not too late because another one was", async (t) => {
  const world = await World.begin(t);
  const [slow, fast] = [await world.client(), await world.open()];
  let [late, asked] = [() => {}, () => {}];
  const hanging = new Promise<void>((done) => {
    asked = done;
  });
  world.answer = (response, call) => {
    if (call === "batches") {
      late = () => reply(response, 410);
      asked();
    }
    return call === "batches";
  };
  const syncing = slow.sync(AT_ONCE);
  await hanging;
  world.answer = () => false;
  assert.equal((await fast.sync(AT_ONCE)).outcome, "sent");
  late();
  assert.equal((await syncing).outcome, "sent");
  assert.equal((await fast.lastBatch())?.state, "sent");
});

test("two tabs that begin at once are one client", async (t) => {
  const world = await World.begin(t);
  const limits = [5, 7, 9];
  const tabs = await Promise.all(limits.map((limit) => world.open({ limit })));
  const seen = await Promise.all(tabs.map(async (tab) => (await tab.status()).limit));
  assert.equal(new Set(seen).size, 1);
});

test("a tab that is slow does not set the others back", async (t) => {
  const world = await World.begin(t);
  const [slow, fast] = [await world.open(), await world.open()];
  await world.publish(2);
  const old = world.manifest;
  let asked = () => {};
  const waiting = new Promise<void>((done) => {
    asked = done;
  });
  let go = () => {};
  const gate = new Promise<void>((done) => {
    go = done;
  });
  world.answer = async (_, call) => {
    if (call === "models" && world.manifest === old) {
      asked();
      await gate;
    }
    return false;
  };
  const refreshing = slow.refresh();
  refreshing.catch(() => undefined);
  await waiting;
  await world.publish(3);
  await fast.refresh();
  go();
  await assert.rejects(refreshing, /one of epoch 3 was accepted before/);
  const { epoch, manifest } = await slow.status();
  assert.deepEqual([epoch, manifest?.epoch], [3, 3]);
});

test("forgetting in one tab holds in the other", async (t) => {
  const world = await World.begin(t);
  const [one, other] = [await world.client(), await world.open()];
  await one.sync(AT_ONCE);
  await other.refresh();
  assert.equal((await other.recommend(1)).length, 1);
  await one.forget();
  await assert.rejects(other.recommend(1), { name: "StoreError" });
  assert.deepEqual(await other.touched(), []);
  await other.refresh();
  assert.equal((await one.recommend(1)).length, 1);
  assert.equal((await one.release(1))?.V.values[0], itemMatrix(1)[0]);
});
