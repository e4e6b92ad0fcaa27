/** Keys: which the server may sign with, and to which nothing is sealed. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { toHex } from "../src/bytes.js";
import { ProtocolError, UntrustedError } from "../src/errors.js";
import { item } from "./published.js";
import { charges, dump } from "./stored.js";
import { AT_ONCE, told, World } from "./world.js";

// Keys that follow each other.

test("a key that the trusted one names is trusted from then on, and nobody leads back", async (t) => {
  const [world, client] = await told(t);
  const old = await world.signed(4);
  const next = await world.turnKey();
  await world.publish(3);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  const [settings] = (await dump(world.factory)).settings as { key: string; trusted: string }[];
  assert.deepEqual([settings?.key, settings?.trusted], [world.key, next]);
  world.manifest = new Uint8Array(old.raw); // the thief of the first key
  await assert.rejects(client.refresh(), /not signed by the server/);
  const later = await world.turnKey();
  await world.publish(5);
  await client.refresh();
  const [now] = (await dump(world.factory)).settings as { trusted: string }[];
  assert.equal(now?.trusted, later);
  assert.equal((await client.recommend(3)).length, 3); // what is stored is still believed
  assert.equal((await client.release(1))?.manifest.epoch, 1); // of before any other key
  (await world.open()).close(); // the application still names the first key
});

test("a key that another one names is not trusted", async (t) => {
  const [world, client] = await told(t);
  const stranger = await World.begin(t);
  await stranger.turnKey();
  world.manifest = new Uint8Array((await stranger.signed(3)).raw);
  await assert.rejects(client.refresh(), /a key statement is not signed/);
  const [settings] = (await dump(world.factory)).settings as { trusted: string }[];
  assert.equal(settings?.trusted, world.key);
});

for (const first of [0, 1]) {
  test(`nothing is sealed to the point ${first} of small order`, async (t) => {
    const [world, client] = await told(t);
    const key = new Uint8Array(32);
    key[0] = first;
    await world.publish(3, { public_key: toHex(key) });
    for (const _ of [1, 2]) {
      await assert.rejects(client.sync(AT_ONCE), ProtocolError);
    }
    assert.deepEqual([world.received, await charges(world)], [[], []]);
    assert.deepEqual((await client.status()).batches, { charged: 0, sent: 0, dropped: 0 });
    assert.equal((await client.recommend(3)).length, 3);
  });
}

// The pinned key.

test("another key or another proxy is refused in plain words, and nobody is asked", async (t) => {
  const world = await World.begin(t);
  (await world.client()).close();
  const before = await dump(world.factory);
  await assert.rejects(world.open({ key: "00".repeat(32) }), (error) => {
    assert.ok(error instanceof UntrustedError);
    const trusted = "than the one this browser has trusted since 1970-01-02";
    assert.match(error.message, new RegExp(`^This address now names another key ${trusted}`));
    return true;
  });
  await assert.rejects(world.open({ proxy: "https://other.example" }), (error) => {
    assert.ok(error instanceof UntrustedError);
    assert.match(error.message, /https:\/\/other\.example is named/);
    return true;
  });
  assert.deepEqual(world.requests, []);
  assert.deepEqual(await dump(world.factory), before);
  assert.deepEqual(await (await world.open()).touched(), [item(3), item(7), item(20)]);
});
