/** When a device takes part and when it sends: from its coins and public numbers alone. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { STEP } from "../src/schedule.js";
import { drawnPlan, JITTER, lead } from "../src/timing.js";
import type { DeviceOptions } from "./device.js";
import { charges, dump } from "./stored.js";
import { manifestWith } from "./vectors.js";
import { AT_ONCE, COST, DAY, LEAD, sameWords, TERMS, World } from "./world.js";

/** Bytes that come out as these numbers in [0, 1), one after the other. */
function coins(...shares: number[]): (size: number) => Uint8Array<ArrayBuffer> {
  return (size) => {
    const bytes = new Uint8Array(size);
    bytes[size - 1] = Math.floor((shares.shift() ?? 0) * 256);
    return bytes;
  };
}

const manifest = manifestWith({
  ...{ items: 2 ** 17, opens: 0, closes: 10_000, epochsLeft: 0 },
  terms: { factors: 8, reports: 200, share: 0.5, hold: 5_000 },
});
const LARGE = 5 + 5 + 1;

test("the lead is of public numbers, and the moment lies behind it", () => {
  assert.equal(lead(manifest), LARGE);
  for (const share of [0, 0.25, 0.5, 0.75]) {
    const plan = drawnPlan(manifest, 1, 100, JITTER, coins(0, share));
    assert.deepEqual(plan, { epoch: 3, takesPart: true, sendAt: 100 + LARGE + share * 3600 });
  }
});

test("without an end the share of the terms is the chance to take part", () => {
  for (const [u, takesPart] of [
    [0, true],
    [127 / 256, true],
    [0.5, false],
    [255 / 256, false],
  ] as const) {
    assert.equal(drawnPlan(manifest, 1, 100, JITTER, coins(u, 0)).takesPart, takesPart);
  }
  const certain = { ...manifest, terms: { ...manifest.terms, share: 1 } };
  const highest = (size: number) => new Uint8Array(size).fill(255);
  assert.ok(drawnPlan(certain, 1, 100, JITTER, highest).takesPart);
});

test("the moment lies before the end of the epoch, or of the time that it is held open", () => {
  const moment = (now: number, share: number) =>
    drawnPlan(manifest, 1, now, JITTER, coins(0, share)).sendAt;
  assert.equal(moment(9_000, 0.5), 9_000 + LARGE + 0.5 * (1_000 - LARGE));
  assert.equal(moment(10_000, 0.5), 10_000 + LARGE + 0.5 * 3_600);
  assert.equal(moment(14_500, 0.5), 14_500 + LARGE + 0.5 * (500 - LARGE));
  assert.equal(moment(9_999, 0.5), 9_999 + LARGE + 0.5 * 3_600); // while the crowd is waited for
  assert.equal(moment(14_999, 0.5), 14_999 + LARGE); // there is no time left to choose from
  assert.equal(drawnPlan(manifest, 1, 100, 0, coins(0, 0.5)).sendAt, 100 + LARGE);
});

/** A client whose every request, pause and charge is noted with its time. */
async function watched(world: World, options: DeviceOptions = {}) {
  const seen: [string, number][] = [];
  const client = await world.client({
    fetch: (input, init) => {
      seen.push([String(input).split("/")[4] ?? "", world.now]);
      return fetch(input, init);
    },
    sleep: async (seconds) => {
      if (seconds > STEP) seen.push(["sleep", world.now]);
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

/** A page that is closed in its long pause. */
function closedIn(world: World) {
  return async (seconds: number) => {
    if (seconds > STEP) throw new Error("the page was closed");
    world.now += seconds;
  };
}

test("it sleeps until a lead before the moment, asks again, makes the batch, and sends in time", async (t) => {
  const world = await World.begin(t);
  const start = world.now;
  const { client, seen } = await watched(world, { entropy: coins(0, 0.5) });
  assert.equal((await client.sync()).outcome, "sent");
  const asked = start + STEP; // what is stored was read before
  const moment = asked + LEAD + 1800;
  assert.deepEqual(
    seen.map(([what]) => what),
    ["manifest", "models", "catalogues", "sleep", "manifest", "history", "sleep", "batches"],
  );
  const times = seen.map(([, time]) => time);
  assert.ok(times.slice(0, 4).every((time) => time === asked));
  assert.ok(times.slice(4, 7).every((time) => Math.abs(time - (moment - LEAD)) < 1e-6));
  assert.ok(Math.abs((times[7] ?? 0) - moment) < 1e-6);
});

test("without jitter it sends a lead after the decision", async (t) => {
  const world = await World.begin(t);
  const start = world.now;
  const { client, seen } = await watched(world);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  assert.deepEqual(
    seen.map(([what]) => what),
    ["manifest", "models", "catalogues", "history", "sleep", "batches"],
  );
  assert.ok(Math.abs((seen.at(-1)?.[1] ?? 0) - (start + STEP + LEAD)) < 1e-6);
});

test("a page that is closed while it waits has spent nothing, and goes on from its plan", async (t) => {
  const world = await World.begin(t);
  const giveUp = closedIn(world);
  const { client } = await watched(world, { entropy: coins(0, 0.5), sleep: giveUp });
  await assert.rejects(client.sync(), /the page was closed/);
  const { plan, spent, batches } = await client.status();
  assert.deepEqual([spent, batches.charged, await charges(world)], [0, 0, []]);
  assert.ok(Math.abs((plan?.sendAt ?? 0) - (world.now + LEAD + 1800)) < 1e-6);
  client.close();
  const next = await watched(world, { entropy: coins(0.99, 0.99, 0.99) });
  world.now += 600;
  assert.equal((await next.client.sync()).outcome, "sent");
  assert.deepEqual((await next.client.status()).plan, plan); // no second toss
  assert.ok(Math.abs((next.seen.at(-1)?.[1] ?? 0) - (plan?.sendAt ?? 0)) < 1e-6);
});

test("a moment that is over by the next visit: as soon as the batch is made", async (t) => {
  const world = await World.begin(t);
  const giveUp = closedIn(world);
  const { client } = await watched(world, { entropy: coins(0, 0.5), sleep: giveUp });
  await assert.rejects(client.sync());
  world.now += 7200;
  const start = world.now;
  const { client: again, seen } = await watched(world);
  assert.equal((await again.sync()).outcome, "sent");
  assert.ok(Math.abs((seen.at(-1)?.[1] ?? 0) - (start + STEP + LEAD)) < 1e-6);
});

test("another epoch while it sleeps: this one is missed, and cost nothing", async (t) => {
  const world = await World.begin(t);
  const { client } = await watched(world, {
    sleep: async (seconds) => {
      world.now += seconds;
      if (seconds > STEP) await world.publish(2, { opens: DAY, closes: 3 * DAY });
    },
  });
  const synced = await client.sync();
  assert.deepEqual([synced.outcome, synced.epoch, synced.spent], ["missed", 2, 0]);
  assert.deepEqual([world.received, await charges(world)], [[], []]);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
});

test("whoever sleeps past the end makes nothing", async (t) => {
  const world = await World.begin(t);
  const { client } = await watched(world, {
    sleep: async (seconds) => {
      world.now += seconds > STEP ? DAY : seconds;
    },
  });
  assert.equal((await client.sync()).outcome, "not open");
  assert.deepEqual([world.received, await charges(world)], [[], []]);
});

test("whoever sits an epoch out does so however often it is asked, and for nothing", async (t) => {
  const world = await World.begin(t, { terms: { share: 0.5 } });
  const { client } = await watched(world, { entropy: coins(0.75, 0.5, 0, 0) });
  for (const _ of [1, 2, 3]) {
    const { outcome, spent } = await client.sync();
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
  const { epochs, spent } = await client.status();
  assert.deepEqual([epochs, spent], [3, 3 * COST]);
});

test("epochs that were thrown away count, and no server makes a device spend more", async (t) => {
  const world = await World.begin(t, { terms: { epochs: 2 } });
  const client = await world.client({ limit: 1000 });
  for (const epoch of [1, 2, 3, 4, 5]) {
    world.now = (epoch + 0.5) * DAY;
    await world.publish(epoch, { reports_behind: 0 });
    await client.sync(AT_ONCE);
  }
  assert.deepEqual([world.received.length, (await charges(world)).length], [2, 2]);
});
