/** What an application sees of a client. */

import assert from "node:assert/strict";
import { test } from "node:test";
import * as exported from "../src/index.js";
import { ITEMS, item, traitsOf } from "./published.js";
import { AT_ONCE, COST, DAY, EPSILON, hashOf, REPORTS, sameWords, TERMS, World } from "./world.js";

/** What a page over http has. */
const INSECURE = { value: { getRandomValues: () => {} } };

test("status before and after a sync", async (t) => {
  const world = await World.begin(t);
  const client = await world.open();
  await client.record([item(3), item(7), item(20), "unheard of"]);
  const before = await client.status();
  assert.deepEqual(
    [before.epoch, before.terms, before.known, before.manifest],
    [null, null, 0, null],
  );
  assert.deepEqual([before.epochs, before.plan], [0, null]);
  await client.accept(TERMS);
  assert.deepEqual([before.spent, before.remaining, before.limit], [0, 100, 100]);
  await client.sync(AT_ONCE);
  const after = await client.status();
  assert.deepEqual([after.touched, after.known, after.unknown], [4, 3, ["unheard of"]]);
  assert.deepEqual([after.epoch, after.terms, after.manifest?.epoch], [1, TERMS, 1]);
  assert.deepEqual([after.spent, after.remaining, after.proxy], [COST, 100 - COST, world.url]);
  assert.deepEqual([after.paused, after.batches.sent, after.epochs], [false, 1, 1]);
  assert.deepEqual(after.plan, { epoch: 1, takesPart: true, sendAt: world.now });
});

test("status and sync round what is spent up and what is left down", async (t) => {
  const world = await World.begin(t, { terms: { epsilon: 0.1, reports: 10 } });
  const client = await world.open({ limit: 1.5 });
  await client.accept({ ...TERMS, epsilon: 0.1, reports: 10 });
  const { spent, remaining } = await client.sync(AT_ONCE);
  assert.equal(spent, 1.0000000000000002); // ten times the float 0.1 is more than 1
  assert.equal(remaining, 0.49999999999999994);
});

test("a page without cryptography is told why", async (t) => {
  const world = await World.begin(t);
  const kept = Object.getOwnPropertyDescriptor(globalThis, "crypto") ?? {};
  t.after(() => Object.defineProperty(globalThis, "crypto", kept));
  Object.defineProperty(globalThis, "crypto", { ...INSECURE, configurable: true });
  await assert.rejects(world.open(), { name: "SettingsError", message: /over https/ });
});

test("the catalogue, once there is one", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await assert.rejects(client.catalogue(), { name: "StoreError", message: /no model/ });
  await client.refresh();
  const items = await client.catalogue();
  assert.equal(items.length, ITEMS);
  assert.deepEqual(items[4], { id: item(4), title: "Title 4", tags: traitsOf(4) });
});

test("fetching sends nothing and says what was published", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  const manifest = await client.refresh();
  assert.deepEqual(
    [manifest.epoch, manifest.terms.reports, manifest.closes],
    [1, REPORTS, 2 * DAY],
  );
  assert.deepEqual(world.calls(), ["manifest", "models", "catalogues"]);
  assert.deepEqual((await client.status()).batches, { charged: 0, sent: 0, dropped: 0 });
});

test("files that are the same are not fetched again, nor decoded again", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.refresh();
  const [before, V] = [await client.catalogue(), (await client.release(1))?.V];
  await client.refresh();
  await (await world.open()).refresh();
  assert.equal(await client.catalogue(), before); // the very same object
  await world.publish(2);
  await client.refresh();
  assert.equal(await client.catalogue(), before);
  assert.notDeepEqual((await client.release(2))?.V, V);
  const calls = world.requests.filter(({ path }) => path.startsWith("/v2/catalogues/"));
  assert.equal(calls.length, 1);
  const models = world.calls().filter((call) => call === "models");
  assert.equal(models.length, 2); // of two epochs fetched; the present one is looked at here
});

test("a reload finds everything again, without a network", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.sync(AT_ONCE);
  const [status, recommended] = [await client.status(), await client.recommend(5)];
  const [shown, items] = [await client.lastBatch(), await client.catalogue()];
  client.close();
  await world.stop();
  const reloaded = await world.open();
  assert.deepEqual(await reloaded.status(), status);
  assert.deepEqual(await reloaded.recommend(5), recommended);
  assert.deepEqual(await reloaded.lastBatch(), shown);
  assert.deepEqual(await reloaded.catalogue(), items);
});

test("the last batch is shown bit for bit", async (t) => {
  const world = await World.begin(t);
  const client = await world.client({ words: sameWords });
  assert.equal(await client.lastBatch(), null);
  await client.sync(AT_ONCE);
  const shown = await client.lastBatch();
  assert.ok(shown);
  assert.deepEqual(Object.keys(shown).sort(), [
    ...["bytes", "epoch", "epsilon", "hash", "mechanism", "state", "told"],
  ]);
  assert.deepEqual([shown.epoch, shown.state, shown.mechanism], [1, "sent", "loudest"]);
  assert.equal(shown.epsilon, EPSILON);
  assert.deepEqual(shown.bytes, world.received[0]);
  assert.equal(shown.hash, await hashOf(shown.bytes));
  const opened = await world.opened(shown.bytes);
  assert.deepEqual(
    shown.told.map(({ index, bit }) => index * 2 + bit),
    opened,
  );
  assert.ok(shown.told.every(({ coin }) => ["kept", "turned", "random"].includes(coin)));
});

test("nothing private is in any request", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.sync(AT_ONCE);
  await client.recommend(10);
  await world.publish(2);
  await client.refresh();
  await client.release(1);
  assert.ok(world.requests.length > 6);
  for (const { method, path, headers, body } of world.requests) {
    assert.doesNotMatch(
      `${method} ${path} ${JSON.stringify(headers)}`,
      /secret-item|cookie|referer/,
    );
    assert.ok(!Buffer.from(body).includes("secret-item"));
  }
});

test("every name that is exported is there", () => {
  assert.deepEqual(Object.keys(exported).sort(), [
    ...["Client", "ClosedError", "LedgerError", "PostponedError", "ProtocolError"],
    ...["RefusedError", "SettingsError", "SottovoceError", "StoreError", "TermsError"],
    ...["UnavailableError", "UntrustedError", "epochsWithin", "limitFor", "scoreOf"],
    ...["solution", "spent", "tagsOf", "wideModel"],
  ]);
});
