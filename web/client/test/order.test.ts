/** Tags and order serve recommending alone: nothing that leaves depends on them. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { IDBFactory } from "fake-indexeddb";
import { encodeCatalogue, ITEMS, item, traitsOf } from "./published.js";
import { AT_ONCE, sameWords, TERMS, World } from "./world.js";

/** The same three items: in another order, at one moment or at several, one of them twice. */
const ORDERS = [
  [[3, 7, 20]],
  [[20, 7, 3]],
  [[7], [20], [3]],
  [[3], [20, 7], [3]],
  [[20, 9], [7, 3], [20]], // and 9, which is removed again
].map((moments) => moments.map((numbers) => numbers.map(item)));

/** So many reports of so little noise that they tell histories apart. */
const LOUD = { reports: 30, epsilon: 10 };

const CATALOGUES = [traitsOf, () => ({}), (n: number) => ({ brand: [`${n % 2}`], price: n / 4 })];

/** What a device with the same coins sends: every request, and the reports in its batch. */
async function sent(world: World, moments: readonly (readonly string[])[]) {
  world.factory = new IDBFactory();
  world.requests.length = world.received.length = 0;
  const entropy = (size: number) => new Uint8Array(size).fill(7);
  const client = await world.open({ words: sameWords, entropy, limit: 1000 });
  await client.accept({ ...TERMS, ...LOUD });
  for (const ids of moments) await client.record(ids);
  await client.remove([item(9)]);
  await client.refresh();
  await client.recommend();
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  client.close();
  const [batch] = world.received;
  assert.ok(batch !== undefined && world.received.length === 1);
  const requests = world.requests.map(({ method, path, headers, body }) => {
    return [method, path.replace(/[0-9a-f]{64}/u, "HASH"), headers, body.length];
  });
  return { requests, reports: await world.opened(batch), head: batch.subarray(0, 56) };
}

test("the same items and coins give the same requests, sizes and reports", async (t) => {
  const world = await World.begin(t, { terms: LOUD });
  const found = [];
  for (const traits of CATALOGUES) {
    await world.publish(1, { catalogue: await world.add(encodeCatalogue(ITEMS, traits)) });
    const ofOrders = [];
    for (const moments of ORDERS) ofOrders.push(await sent(world, moments));
    for (const other of ofOrders) assert.deepEqual(other, ofOrders[0]);
    found.push(ofOrders[0]);
  }
  for (const other of found) {
    assert.deepEqual(other?.requests, found[0]?.requests);
    assert.deepEqual(other?.reports, found[0]?.reports);
  }
  const elsewhere = await sent(world, [[item(4), item(5)]]);
  assert.notDeepEqual(elsewhere.reports, found[0]?.reports, "the test could tell");
});
