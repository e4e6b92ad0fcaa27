/** Randomness of the reports, and clients that cannot report. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { SettingsError, StoreError } from "../src/errors.js";
import { makeBatch } from "../src/reporting.js";
import { AT_ONCE, sameWords, TERMS, World } from "./world.js";

test("two devices with the same history say different things", async (t) => {
  // 20 reports of 3 bits or more each agree by chance with probability below 2^-60.
  const world = await World.begin(t, { terms: { reports: 20 } });
  for (const name of ["a", "b"]) {
    const client = await world.open({ name });
    await client.accept({ ...TERMS, reports: 20 });
    assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  }
  const [one, other] = world.received as [Uint8Array, Uint8Array];
  assert.notDeepEqual(await world.opened(one), await world.opened(other));
  assert.notDeepEqual(one.subarray(40, 56), other.subarray(40, 56));
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
  const key = new Uint8Array(32);
  const signed = { manifest: found.manifest, hash: key, key, raw: new Uint8Array() };
  const catalogue = { numbers: new Map<string, number>() };
  const edition = { signed, V: found.V, catalogue };
  const own = { touched: [], generation: "" };
  const coins = { words: sameWords, entropy: (size: number) => new Uint8Array(size) };
  await assert.rejects(makeBatch(edition, own, 0, coins), SettingsError);
});

test("a client that was closed says so and sends nothing", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  client.close();
  await assert.rejects(client.sync(AT_ONCE), StoreError);
  assert.deepEqual(world.requests, []);
});
