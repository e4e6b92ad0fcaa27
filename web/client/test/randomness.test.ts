/** Randomness: of the reports, and of the pause before they leave. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { SettingsError, StoreError } from "../src/errors.js";
import { makeBatch, pauseBeforeSending } from "../src/reporting.js";
import { COST, DAY, sameWords, World } from "./world.js";

test("two devices with the same history say different things", async (t) => {
  // 20 reports of 3 bits or more each agree by chance with probability below 2^-60.
  const world = await World.begin(t, { reports: 20 });
  for (const name of ["a", "b"]) {
    assert.equal((await (await world.open({ name })).sync()).outcome, "sent");
  }
  const [one, other] = world.received as [Uint8Array, Uint8Array];
  assert.notDeepEqual(await world.opened(one), await world.opened(other));
  assert.notDeepEqual(one.subarray(40, 56), other.subarray(40, 56));
});

test("the pause is uniform in its bytes and never as long as its bound", () => {
  for (const share of [0, 0.25, 0.5, 0.75]) {
    const random = new Uint8Array(8);
    random[7] = share * 256;
    assert.equal(
      pauseBeforeSending(10, () => random),
      10 * share,
    );
  }
  for (const most of [1e-3, 1, 20, 1e6]) {
    assert.ok(pauseBeforeSending(most, (size) => new Uint8Array(size).fill(255)) < most);
  }
});

for (const [left, jitter, most] of [
  [100, 30, 30],
  [100, 1e6, 100],
] as const) {
  test(`a pause of at most ${jitter} s ends before the epoch does in ${left} s`, async (t) => {
    const world = await World.begin(t);
    world.now = 2 * DAY - left;
    const slept: number[] = [];
    const client = await world.open({
      entropy: (size) => new Uint8Array(size).fill(255),
      sleep: async (seconds) => {
        slept.push(seconds);
      },
    });
    assert.equal((await client.sync({ jitter })).outcome, "sent");
    assert.equal(slept.length, 1);
    assert.ok(0.999 * most < (slept[0] ?? 0) && (slept[0] ?? 0) < most);
  });
}

test("a device that sleeps longer than it meant to does not send too late", async (t) => {
  const world = await World.begin(t);
  const client = await world.client({
    sleep: async () => {
      world.now += DAY;
    },
  });
  assert.equal((await client.sync({ jitter: 60 })).outcome, "too late");
  assert.deepEqual(world.received, []);
});

test("the charge is on record before the pause", async (t) => {
  const world = await World.begin(t);
  let seen: unknown = null;
  const client = await world.client({
    sleep: async () => {
      const other = await world.open();
      const { batches, spent } = await other.status();
      seen = { batches, spent, received: world.received.length };
    },
  });
  await client.sync({ jitter: 1 });
  const batches = { charged: 1, sent: 0, dropped: 0 };
  assert.deepEqual(seen, { batches, spent: COST, received: 0 });
  assert.equal(world.received.length, 1);
});

test("a pause without sense is refused", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  for (const jitter of [-1, Number.NaN, Number.POSITIVE_INFINITY]) {
    await assert.rejects(client.sync({ jitter }), SettingsError);
  }
  assert.deepEqual(world.requests, []);
});

test("a finished model makes no batch", async (t) => {
  const world = await World.begin(t, { public_key: null });
  const client = await world.client();
  await client.refresh();
  const found = await client.edition(1);
  assert.ok(found);
  const signed = { manifest: found.manifest, hash: new Uint8Array(32), raw: new Uint8Array() };
  const catalogue = { items: [], numbers: new Map<string, number>() };
  const edition = { signed, V: found.V, catalogue };
  const entropy = (size: number) => new Uint8Array(size);
  await assert.rejects(makeBatch(edition, [], sameWords, entropy), SettingsError);
});

test("a client that was closed says so and sends nothing", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  client.close();
  await assert.rejects(client.sync(), StoreError);
  assert.deepEqual(world.requests, []);
});
