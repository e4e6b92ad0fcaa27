/**
 * When a device takes part and when it sends: from its coins and public numbers alone. Everybody has all of
 * their turns before the training ends, and nobody has more.
 */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Entropy } from "../src/coin.js";
import { STEP_SECONDS } from "../src/grid.js";
import { drawPlan, JITTER_SECONDS } from "../src/timing.js";
import { manifestWith, seeded } from "./vectors.js";
import {
  AT_ONCE,
  COST,
  charges,
  DAY,
  type DeviceOptions,
  dump,
  LEAD,
  onGrid,
  sameWords,
  TERMS,
  World,
} from "./world.js";

/** Return an entropy that comes out as these numbers in [0, 1), one after the other. */
function coins(...shares: number[]): (size: number) => Uint8Array<ArrayBuffer> {
  return (size) => {
    const bytes = new Uint8Array(size);
    bytes[size - 1] = Math.floor((shares.shift() ?? 0) * 256);
    return bytes;
  };
}

/** Open a client; note each of its requests, pauses and readings of the history with its time. */
async function openWatched(world: World, options: DeviceOptions = {}) {
  const seen: [string, number][] = [];
  const client = await world.client({
    fetch: (input, init) => {
      const asked = String(input).split("/")[4] ?? "";
      const isQuestion = asked === "batches" && init?.method !== "POST";
      seen.push([isQuestion ? "taken" : asked, world.now]);
      return fetch(input, init);
    },
    sleep: async (seconds) => {
      if (seconds > STEP_SECONDS) seen.push(["sleep", world.now]);
      world.now += seconds;
    },
    words: (reports) => {
      seen.push(["history", world.now]);
      return sameWords(reports);
    },
    ...options,
  });
  return { client, seen };
}

/** Return the sleep of a page that is closed in its long pause. */
function closeInLongPause(world: World) {
  return async (seconds: number) => {
    if (seconds > STEP_SECONDS) throw new Error("the page was closed");
    world.now += seconds;
  };
}

test("it sleeps until a lead before the moment, asks again, makes the batch, and sends in time", async (t) => {
  const world = await World.begin(t);
  const start = world.now;
  const { client, seen } = await openWatched(world, { entropy: coins(0, 0.5) });
  assert.equal((await client.sync()).outcome, "sent");
  const decided = start + 5 * STEP_SECONDS; // by the last of five requests
  const again = onGrid(decided + JITTER_SECONDS / 2);
  assert.deepEqual(
    seen.map(([what]) => what),
    [
      ...["manifest", "models", "catalogues", "shelf", "taken", "sleep"],
      ...["manifest", "shelf", "taken", "history", "sleep", "batches"],
    ],
  );
  const times = seen.map(([, time]) => time);
  assert.deepEqual(
    times.slice(0, 5),
    [1, 2, 3, 4, 5].map((steps) => start + steps * STEP_SECONDS),
  );
  assert.deepEqual(
    times.slice(6, 9),
    [0, 1, 2].map((steps) => again + steps * STEP_SECONDS),
  );
  assert.equal(times.at(-1), onGrid(again + 2 * STEP_SECONDS + LEAD));
});

test("a page that is closed while it waits has spent nothing, and goes on from its plan", async (t) => {
  const world = await World.begin(t);
  const giveUp = closeInLongPause(world);
  const { client } = await openWatched(world, { entropy: coins(0, 0.5), sleep: giveUp });
  await assert.rejects(client.sync(), /the page was closed/);
  const { plan, spentEpsilon: spent, batches } = await client.status();
  assert.deepEqual([spent, batches.charged, await charges(world)], [0, 0, []]);
  assert.ok(Math.abs((plan?.sendAt ?? 0) - (world.now + LEAD + JITTER_SECONDS / 2)) < 1e-6);
  client.close();
  const next = await openWatched(world, { entropy: coins(0.99, 0.99, 0.99) });
  world.now += 1;
  assert.equal((await next.client.sync()).outcome, "sent");
  assert.deepEqual((await next.client.status()).plan, plan); // no second toss
  const late = (next.seen.at(-1)?.[1] ?? 0) - (plan?.sendAt ?? 0);
  assert.ok(late >= 0 && late < 4 * STEP_SECONDS, `${late}`); // it asks three times before
});

test("another epoch while it sleeps: this one is missed, and cost nothing", async (t) => {
  const world = await World.begin(t);
  const { client } = await openWatched(world, {
    entropy: coins(0, 0.5),
    sleep: async (seconds) => {
      world.now += seconds;
      if (seconds > STEP_SECONDS) await world.publish(2, { opens: DAY, closes: 3 * DAY });
    },
  });
  const synced = await client.sync();
  assert.deepEqual([synced.outcome, synced.epoch, synced.spentEpsilon], ["missed", 2, 0]);
  assert.deepEqual([world.received, await charges(world)], [[], []]);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
});

test("whoever sleeps past the end makes nothing", async (t) => {
  const world = await World.begin(t);
  const { client } = await openWatched(world, {
    entropy: coins(0, 0.5),
    sleep: async (seconds) => {
      world.now += seconds > STEP_SECONDS ? DAY : seconds;
    },
  });
  assert.equal((await client.sync()).outcome, "not open");
  assert.deepEqual([world.received, await charges(world)], [[], []]);
});

test("whoever sits an epoch out does so however often it is asked, and for nothing", async (t) => {
  const world = await World.begin(t, { terms: { share: 0.5 } });
  const { client } = await openWatched(world, { entropy: coins(0.75, 0.5, 0, 0) });
  for (const _ of [1, 2, 3]) {
    const { outcome, spentEpsilon: spent } = await client.sync();
    assert.deepEqual([outcome, spent], ["sitting out", 0]);
  }
  await client.forget();
  assert.equal((await client.sync()).outcome, "sitting out");
  world.now += DAY;
  await world.publish(2);
  assert.equal((await client.sync()).outcome, "sent");
  assert.deepEqual(
    ((await dump(world.factory)).plans as { epoch: number }[]).map(({ epoch }) => epoch),
    [2],
  );
});

test("an epoch that waits for its crowd still takes a batch", async (t) => {
  const world = await World.begin(t, { terms: { hold: DAY } });
  const client = await world.open();
  await client.accept({ ...TERMS, hold: DAY });
  world.now = 2 * DAY + 1;
  assert.equal((await client.sync()).outcome, "sent");
  world.now = 3 * DAY;
  assert.equal((await client.sync()).outcome, "already sent");
});

test("a lifetime is the device's own, however fast a server goes through its epochs", async (t) => {
  const always = { opens: 0, closes: 9 * DAY };
  const world = await World.begin(t, { ...always, terms: { epochs: 3 } });
  const client = await world.client({ limit: 1000 });
  const outcomes: string[] = [];
  for (const epoch of [1, 2, 3, 4, 5]) {
    world.now = DAY + 60 * epoch;
    await world.publish(epoch, always);
    outcomes.push((await client.sync(AT_ONCE)).outcome);
  }
  assert.deepEqual(outcomes, ["sent", "sent", "sent", "lifetime over", "lifetime over"]);
  const { epochs, spentEpsilon: spent } = await client.status();
  assert.deepEqual([epochs, spent], [3, 3 * COST]);
});

const announced = (share: number, epochsLeft: number) =>
  manifestWith({ epochsLeft, terms: { share } });

function bytesFrom(random: () => number): Entropy {
  return (size) => Uint8Array.from({ length: size }, () => random() * 256);
}

const never: Entropy = (size) => new Uint8Array(size).fill(255);
const always: Entropy = (size) => new Uint8Array(size);

test("two coins are tossed, whatever the chance", () => {
  for (const [share, epochsLeft] of [
    [2 ** -32, 0],
    [2 ** -32, 1],
    [1, 0],
    [0.5, 3],
  ] as const) {
    const asked: number[] = [];
    drawPlan(announced(share, epochsLeft), 1, 0, 60, (size) => {
      asked.push(size);
      return new Uint8Array(size);
    });
    assert.deepEqual(asked, [8, 8]);
  }
});

/** Return the epochs, counted from 0, in which a device takes part. */
function listParticipation(
  turns: number,
  epochs: number,
  share: number,
  entropy: Entropy,
): number[] {
  const taken: number[] = [];
  for (let epoch = 0; epoch < epochs && taken.length < turns; epoch++) {
    const manifest = announced(share, epochs - epoch);
    if (drawPlan(manifest, turns - taken.length, 0, 0, entropy).takesPart) taken.push(epoch);
  }
  return taken;
}

test("every turn is taken, whatever the coins", () => {
  const random = seeded(4);
  const mixed: Entropy = (size) => (random() < 0.5 ? never : always)(size);
  for (let epochs = 1; epochs <= 12; epochs++) {
    for (let turns = 1; turns <= epochs; turns++) {
      for (const entropy of [never, always, bytesFrom(random), mixed]) {
        assert.equal(listParticipation(turns, epochs, turns / epochs, entropy).length, turns);
      }
    }
  }
});

/** Sync once in each epoch, whose manifests announce these numbers of epochs; return the outcomes. */
async function syncEveryEpoch(
  t: TestContext,
  terms: object,
  epochsLeft: readonly number[],
  entropy: Entropy,
) {
  const world = await World.begin(t, { terms: { ...terms } });
  const client = await world.client({ limit: 1000, entropy });
  const outcomes: string[] = [];
  for (const [at, epochs_left] of epochsLeft.entries()) {
    world.now = (at + 1.5) * DAY;
    await world.publish(at + 1, { epochs_left });
    outcomes.push((await client.sync(AT_ONCE)).outcome);
  }
  const sent = outcomes.filter((outcome) => outcome === "sent").length;
  assert.deepEqual([world.received.length, (await charges(world)).length], [sent, sent]);
  client.close();
  return outcomes;
}

test("a device that was away makes up for it", async (t) => {
  assert.deepEqual(await syncEveryEpoch(t, { epochs: 2, share: 2 ** -32 }, [2, 1], never), [
    "sent",
    "sent",
  ]);
});

test("a server that calls every epoch the last has the turns sooner, and never more", async (t) => {
  const outcomes = await syncEveryEpoch(t, { epochs: 2, share: 2 ** -32 }, [1, 1, 1, 1, 1], never);
  assert.deepEqual(outcomes, ["sent", "sent", ...Array(3).fill("lifetime over")]);
});

test("no lie gives more turns", async (t) => {
  const random = seeded(6);
  for (let round = 0; round < 4; round++) {
    const epochsLeft = Array.from(
      { length: 8 },
      () => [0, 1, 2, 8, 2 ** 53 - 1][Math.floor(random() * 5)] ?? 0,
    );
    const outcomes = await syncEveryEpoch(
      t,
      { epochs: 2, share: 0.5 },
      epochsLeft,
      bytesFrom(random),
    );
    assert.ok(outcomes.filter((outcome) => outcome === "sent").length <= 2);
  }
});
