/** The database: durable, private to its origin, refused when it is not what it must be. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { MAX_HISTORY_ITEMS } from "../src/bounds.js";
import { Database } from "../src/database.js";
import { SettingsError, StoreError } from "../src/errors.js";
import { Outbox } from "../src/outbox.js";
import { Store } from "../src/store.js";
import { onTransaction } from "./mortal.js";
import {
  AT_ONCE,
  DAY,
  type Device,
  type DeviceOptions,
  dump,
  hashOf,
  item,
  meddle,
  World,
} from "./world.js";

const CHARGE = {
  ...{ training: "0f".repeat(16), mechanism: "loudest", epsilon: 1, reports: 1 },
  ...{ loudFraction: 0.1, clients: 9, dummies: 0 },
};

async function begun(t: TestContext): Promise<[World, Device]> {
  const world = await World.begin(t);
  return [world, await world.client()];
}

function opened(world: World): Promise<Database> {
  return Database.open("sottovoce", world.factory);
}

test("every write is durable before it is acknowledged", async (t) => {
  const world = await World.begin(t);
  const asked: [string, unknown][] = [];
  const indexedDB = onTransaction(world.factory, (begin, mode, options) => {
    asked.push([mode, options]);
    return begin();
  });
  const client = await world.client({ indexedDB });
  await client.sync(AT_ONCE);
  await client.pause(true);
  await client.setLimit(7);
  await client.remove([item(3)]);
  await client.forget();
  const writes = asked.filter(([mode]) => mode === "readwrite");
  assert.ok(writes.length >= 8);
  for (const [, options] of writes) {
    assert.deepEqual(options, { durability: "strict" });
  }
});

test("an item is kept, with its place, its moment and nothing else about it", async (t) => {
  const [world] = await begun(t);
  const items = [3, 7, 20].map((n) => ({ id: item(n), moment: 1 }));
  assert.deepEqual((await dump(world.factory)).history, [{ only: 1, items }]);
});

test("a history holds so many items that reading it never takes long: the latest", async (t) => {
  const [, client] = await begun(t);
  const many = Array.from({ length: MAX_HISTORY_ITEMS - 1 }, (_, n) => `item-${n}`);
  assert.equal(await client.record(many), MAX_HISTORY_ITEMS - 1);
  assert.deepEqual((await client.touched()).slice(0, 2), [item(3), "item-0"]);
  await client.record([item(20), "last"]);
  const touched = await client.touched();
  assert.deepEqual([touched.length, touched[0]], [MAX_HISTORY_ITEMS, "item-0"]);
  assert.deepEqual(touched.slice(-2), [item(20), "last"]);
});

test("recording counts what is new and keeps the order", async (t) => {
  const [, client] = await begun(t);
  assert.equal(await client.record(["b", "a", "b"]), 2);
  assert.equal(await client.record(["a", "c"]), 1);
  assert.equal(await client.record([]), 0);
  assert.equal(await client.remove([item(7), "unheard of"]), 1);
  assert.equal(await client.record([item(7)]), 1);
  assert.deepEqual(await client.touched(), [item(3), item(20), "b", "a", "c", item(7)]);
});

test("what is recorded together is one moment, later than all that is there", async (t) => {
  const [world, client] = await begun(t);
  await client.record(["a", item(7)]);
  await client.record([]);
  await client.record(["b", "a", "b"]);
  const store = new Store(await opened(world));
  assert.deepEqual(
    [...(await store.readHistory())],
    [
      [item(3), 1],
      [item(7), 2],
      [item(20), 1],
      ["a", 3],
      ["b", 3],
    ],
  );
  await client.remove(["a", "b"]);
  await client.record(["c"]);
  assert.equal((await store.readHistory()).get("c"), 3);
  await client.record(["e", "c"], { ordered: false });
  assert.deepEqual([...(await store.readHistory())].slice(-2), [
    ["c", 3],
    ["e", 3],
  ]);
  await client.forget();
  await client.record(["d"], { ordered: false });
  assert.deepEqual([...(await store.readHistory())], [["d", 1]]);
});

test("a database of an earlier layout is refused, and left as it is", async (t) => {
  const world = await World.begin(t);
  const early = () =>
    new Promise<string[]>((done) => {
      const request = world.factory.open("sottovoce", 1);
      request.onupgradeneeded = () => request.result.createObjectStore("charges");
      request.onsuccess = () => {
        done([...request.result.objectStoreNames]);
        request.result.close();
      };
    });
  await early();
  await assert.rejects(world.client(), /earlier version.*Nothing was changed/);
  assert.deepEqual(await early(), ["charges"]);
});

test("one bad name and nothing is recorded", async (t) => {
  const [, client] = await begun(t);
  for (const bad of ["", "x".repeat(513), "\ud800", 7, null]) {
    await assert.rejects(client.record(["good", bad as string]), SettingsError);
  }
  assert.equal((await client.status()).touched, 3);
});

for (const [what, change] of Object.entries({
  "a short key": { key: "abcd" },
  "a key in capitals": { key: "AB".repeat(32) },
  "a limit below nothing": { limit: -1 },
  "a limit that is no number": { limit: Number.NaN },
  "an address that is not encrypted": { proxy: "http://proxy.example" },
} satisfies Record<string, DeviceOptions>)) {
  test(`${what} is refused at the start, and nothing is made`, async (t) => {
    const world = await World.begin(t);
    await assert.rejects(world.open(change), SettingsError);
    assert.deepEqual(await world.factory.databases(), []);
  });
}

test("limit and pause count at the first open only", async (t) => {
  const world = await World.begin(t);
  (await world.open({ limit: 5, paused: true })).close();
  const status = await (await world.open({ limit: 50, paused: false })).status();
  assert.deepEqual([status.limit, status.paused], [5, true]);
});

test("a database of a newer program is refused", async (t) => {
  const [world, client] = await begun(t);
  client.close();
  await new Promise((done) => {
    const request = world.factory.open("sottovoce", 99);
    request.onsuccess = () => done(request.result.close());
  });
  await assert.rejects(world.open(), { name: "StoreError", message: /newer version/ });
});

test("a browser that deletes the data is not held up, and the client says so", async (t) => {
  const [world, client] = await begun(t);
  await new Promise((done, fail) => {
    const request = world.factory.deleteDatabase("sottovoce");
    request.onsuccess = done;
    request.onblocked = fail;
  });
  await assert.rejects(client.sync(AT_ONCE), StoreError);
  assert.deepEqual(world.requests, []);
});

test("a spoilt file is fetched again", async (t) => {
  const [world, client] = await begun(t);
  const { fields } = await world.publish(1);
  await client.sync(AT_ONCE);
  const spoilt = { name: String(fields.model), content: new Uint8Array(9) };
  await meddle(world.factory, "files", (files) => files.put(spoilt));
  const reloaded = await world.open();
  await assert.rejects(reloaded.recommend(), /no model/);
  await reloaded.sync(AT_ONCE);
  assert.equal((await reloaded.recommend(4)).length, 4);
});

/** Keep a batch of four bytes with its charge, as a careless caller may hand them in. */
async function keep(database: Database, { batch = 1, charge = 1, reports = 1 }): Promise<boolean> {
  const bytes = new Uint8Array(4);
  const purpose = await hashOf(bytes);
  const { generation } = await new Store(database).readSettings();
  const moments = { sendAt: 0, ends: 9 * DAY, notBefore: 0 };
  const entry = {
    batch: { epoch: batch, purpose, state: "charged", ...moments, bytes },
    charge: { ...CHARGE, epoch: charge, purpose, reports },
    shown: {
      only: 1,
      epoch: batch,
      bytes,
      reports: [],
      titles: null,
      mechanism: "",
      epsilon: 1,
      purpose,
    },
    generation,
  } as const;
  return new Outbox(database).keep(entry, () => true);
}

test("the database refuses a second batch or charge for an epoch, and keeps none without the other", async (t) => {
  const [world, client] = await begun(t);
  await client.sync(AT_ONCE);
  const [before, database] = [await dump(world.factory), await opened(world)];
  for (const [batch, charge] of [
    [1, 1],
    [1, 2],
    [2, 1],
  ] as const) {
    await assert.rejects(keep(database, { batch, charge }), StoreError);
    assert.deepEqual(await dump(world.factory), before);
  }
});

test("the transaction that keeps a batch refuses one beyond the limit, whatever was judged before", async (t) => {
  const [world, client] = await begun(t);
  await client.setLimit(1);
  const database = await opened(world);
  assert.equal(await keep(database, { reports: 2 }), false);
  assert.deepEqual((await dump(world.factory)).batches, []);
  assert.equal(await keep(database, { reports: 1 }), true);
});
