/**
 * From a sync to a batch that arrived: what leaves, when, how often, what it costs, and that the owner's choices
 * hold at every moment.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { IDBFactory } from "fake-indexeddb";
import { toHex } from "../src/bytes.js";
import { StoreError, UnavailableError } from "../src/errors.js";
import { STEP_SECONDS } from "../src/grid.js";
import { makeReports } from "../src/mechanism/registry.js";
import { Store } from "../src/store.js";
import { parseTermsBlock, toFields } from "../src/terms.js";
import {
  AT_ONCE,
  COST,
  charges,
  DAY,
  type Device,
  DUMMY_TERMS,
  distinct,
  dump,
  EPSILON,
  encodeCatalogue,
  encodeModel,
  epochOf,
  FACTORS,
  hashOf,
  ITEMS,
  item,
  itemMatrix,
  LEAD,
  REPORTS,
  sameWords,
  TERMS,
  toBatches,
  traitsOf,
  World,
  whileWaiting,
} from "./world.js";

test("a first sync learns and takes part", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  assert.deepEqual(await client.sync(AT_ONCE), {
    epoch: 1,
    outcome: "sent",
    abandonedEpoch: null,
    spentEpsilon: COST,
    remainingEpsilon: 100 - COST,
    sentence: "The batch of epoch 1 was sent.",
  });
  assert.deepEqual(world.calls(), [
    "manifest",
    "models",
    "catalogues",
    "shelf",
    "taken",
    "batches",
  ]);
  const [charge, ...more] = await charges(world);
  assert.equal(more.length, 0);
  assert.equal(charge?.purpose, await hashOf(world.received[0] as Uint8Array));
  assert.deepEqual([charge?.epoch, charge?.epsilon, charge?.reports], [1, EPSILON, REPORTS]);
  assert.deepEqual(
    [charge?.training, charge?.loudFraction, charge?.clients],
    [TERMS.training, TERMS.loudFraction, TERMS.minClients],
  );
  const [row] = (await dump(world.factory)).batches as { state: string; bytes: unknown }[];
  assert.deepEqual([row?.state, row?.bytes], ["sent", null], "its bytes are gone");
});

test("a charge names the dummies of the terms as they are", async (t) => {
  const { parameters, dummies } = DUMMY_TERMS;
  const world = await World.begin(t, { terms: { parameters, dummies } });
  const client = await world.open();
  await client.accept(DUMMY_TERMS);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  assert.deepEqual(
    (await charges(world)).map((charge) => [charge.dummies, charge.reports]),
    [[dummies, REPORTS]],
  );
});

test("what is forgotten while the history is read goes into no batch", async (t) => {
  const world = await World.begin(t, { terms: LOUD });
  const client = await world.open({ words: sameWords, limit: 1000 });
  await client.accept({ ...TERMS, ...LOUD });
  await client.record([item(3), item(7), item(20)]);
  const { readHistory: touched } = Store.prototype;
  const forgotten = async function (this: Store) {
    const before = await touched.call(this);
    await client.forget();
    return before;
  };
  t.mock.method(Store.prototype, "readHistory", forgotten, { times: 1 });
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  const release = await client.release(1);
  assert.ok(release);
  const { reports } = await makeReports(release.manifest, release.V, [], sameWords(LOUD.reports));
  assert.deepEqual(await world.opened(world.received[0] as Uint8Array), [...reports]);
});

test("a batch opens to exactly the reports of its words", async (t) => {
  const world = await World.begin(t);
  const client = await world.client({ words: sameWords });
  const { epoch } = await client.sync(AT_ONCE);
  const sent = world.received[0] as Uint8Array;
  const release = await client.release(epoch);
  assert.ok(release);
  const batch = await makeReports(release.manifest, release.V, [3, 7, 20], sameWords(REPORTS));
  assert.deepEqual(await world.opened(sent), [...batch.reports]);
  assert.deepEqual(await client.lastBatch(), {
    ...{ epoch: 1, state: "sent", bytes: sent, hash: await hashOf(sent) },
    ...{ reports: batch.readable, titles: null, mechanism: "loudest", epsilon: EPSILON },
  });
  assert.equal(sent.length, 56 + 52 * REPORTS);
  assert.ok(!Buffer.from(sent).includes("secret-item"));
  assert.ok(!Buffer.from(sent).includes(Buffer.from(batch.reports.buffer)));
});

/** Terms that ask for names, with an epsilon at which every report is the name. */
const NAMES = {
  ...toFields(TERMS),
  ...{ mechanism: "named", parameters: { names: 60 }, epsilon: 40, loud_fraction: 1 / 60 },
};

test("a report names an item of the latest moment that the catalogue knows, and the owner reads which", async (t) => {
  const world = await World.begin(t, { terms: NAMES });
  const last = 2n ** 64n - 1n;
  const draws = Array.from({ length: REPORTS + 1 }, (_, at) => [0n, at % 2 ? last : 0n, last, 0n]);
  const client = await world.open({ words: () => BigUint64Array.from(draws.flat()) });
  await client.refresh();
  await client.accept(parseTermsBlock(NAMES), 1e6);
  await client.pause(false);
  await client.record([item(3), item(7)]);
  await client.record([item(20), item(21)]);
  await client.record(["of another catalogue"]);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  const outcomes = await world.opened(world.received[0] as Uint8Array);
  assert.deepEqual(
    outcomes,
    Array.from({ length: REPORTS }, (_, at) => 1 + (at % 2 ? 21 : 20)),
  );
  const batch = await client.lastBatch();
  assert.deepEqual(
    batch?.titles,
    outcomes.map((outcome) => `Title ${outcome - 1}`),
  );
});

test("every epoch has its own batch and keeps only its own files", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  for (const epoch of [1, 2, 3]) {
    world.now = (epoch + 0.5) * DAY;
    await world.publish(epoch);
    assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  }
  assert.equal(new Set(world.received.map((batch) => toHex(batch.subarray(40, 56)))).size, 3);
  assert.deepEqual(
    (await charges(world)).map((charge) => charge.epoch),
    [1, 2, 3],
  );
  const model = await hashOf(encodeModel(itemMatrix(3), ITEMS, FACTORS));
  const names = ((await dump(world.factory)).files as { name: string }[]).map((file) => file.name);
  assert.equal(names.length, 3);
  assert.ok(names.includes(model));
  assert.equal(world.calls().filter((call) => call === "catalogues").length, 1);
});

// When nothing is to be sent.

for (const [what, now, changes, outcome] of [
  ["before it opens", DAY - 10, {}, "not open"],
  ["when it has closed", 2 * DAY, {}, "not open"],
  ["of a finished model", 1.5 * DAY, { public_key: null }, "nothing asked"],
] as const) {
  test(`nothing is made ${what}`, async (t) => {
    const world = await World.begin(t, changes);
    world.now = now;
    const client = await world.client();
    assert.equal((await client.sync(AT_ONCE)).outcome, outcome);
    assert.equal((await client.recommend(3)).length, 3);
    assert.deepEqual((await client.status()).batches, { charged: 0, sent: 0, dropped: 0 });
    assert.equal(await client.lastBatch(), null);
    assert.deepEqual(world.received, []);
    assert.deepEqual(await charges(world), []);
  });
}

test("the first and the last moment count", async (t) => {
  const world = await World.begin(t);
  for (const now of [DAY, 2 * DAY - 2 * LEAD - 5 * STEP_SECONDS - 0.001]) {
    world.now = now;
    const client = await world.accepted({ name: `at-${now}` });
    assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  }
});

const MEANWHILE: Record<string, [string, (client: Device, world: World) => unknown]> = {
  "its owner pauses": ["paused", (client) => client.pause(true)],
  "the limit is lowered": ["limit reached", (client) => client.setLimit(COST - 1)],
  "its owner takes the yes back": ["not accepted", (client) => client.withdraw()],
  "the epoch ends": ["not open", (_, world) => Object.assign(world, { now: 2 * DAY })],
  "another tab learns of a later epoch": [
    "StoreError",
    async (_, world) => {
      await world.publish(2);
      await (await world.open()).refresh();
    },
  ],
};

for (const [what, [outcome, happens]] of Object.entries(MEANWHILE)) {
  test(`a batch is neither kept nor paid for if ${what} while it is made`, async (t) => {
    const world = await World.begin(t);
    const client = await world.client();
    const { readHistory: touched } = Store.prototype;
    const slowly = async function (this: Store) {
      await happens(client, world);
      return touched.call(this);
    };
    t.mock.method(Store.prototype, "readHistory", slowly, { times: 1 });
    const synced = await client.sync(AT_ONCE).catch(({ name }) => ({ outcome: name }));
    assert.equal(synced.outcome, outcome);
    assert.deepEqual([world.received, await charges(world)], [[], []]);
    assert.equal(await client.lastBatch(), null);
  });
}

// A proxy that is away, closed, or says no.

test("the same bytes are sent again", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  world.answer = (response, call, body) => {
    if (call === "batches") {
      world.received.push(body); // it arrived, but the answer was lost
      response.destroy();
    }
    return call === "batches";
  };
  await assert.rejects(client.sync(AT_ONCE), UnavailableError);
  world.answer = toBatches(503);
  for (const _ of [1, 2, 3]) {
    await assert.rejects(client.sync(AT_ONCE), UnavailableError);
  }
  world.answer = () => false;
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  assert.equal(world.received.length, 2);
  assert.equal(distinct(world.received).length, 1);
  const bodies = world.requests.filter((request) => request.method === "POST");
  assert.deepEqual([bodies.length, distinct(bodies.map((request) => request.body)).length], [5, 1]);
  const purpose = await hashOf(world.received[0] as Uint8Array);
  assert.deepEqual(
    (await charges(world)).map((charge) => charge.purpose),
    [purpose],
  );
});

test("a batch that is late by a hair is not sent", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  world.answer = toBatches(503);
  await assert.rejects(client.sync(AT_ONCE), UnavailableError);
  world.answer = () => false;
  world.now = 2 * DAY - STEP_SECONDS; // a step before the first request
  assert.equal((await client.sync(AT_ONCE)).outcome, "too late");
  assert.deepEqual(world.received, []);
});

test("a batch that comes too late stays spent", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  world.answer = toBatches(410);
  for (const _ of [1, 2]) {
    const synced = await client.sync(AT_ONCE);
    assert.deepEqual(
      [synced.outcome, synced.spentEpsilon, synced.abandonedEpoch],
      ["too late", COST, null],
    );
  }
  const [row] = (await dump(world.factory)).batches as { state: string; bytes: unknown }[];
  assert.deepEqual([row?.state, row?.bytes], ["dropped", null]);
  assert.equal(world.requests.filter((request) => request.method === "POST").length, 1);
});

for (const [answer, error] of [
  [toBatches(503), "UnavailableError"],
  [toBatches(403), "RefusedError"],
  [toBatches(429, "", { "retry-after": "3600" }), "PostponedError"],
] as const) {
  test(`what waits after a ${error} makes way when a later epoch is published`, async (t) => {
    const world = await World.begin(t);
    const client = await world.client();
    world.answer = answer;
    await assert.rejects(client.sync(AT_ONCE), { name: error });
    assert.deepEqual((await client.status()).batches, { charged: 1, sent: 0, dropped: 0 });
    world.answer = () => false;
    world.now += 60;
    await world.publish(2, { opens: Math.floor(world.now) });
    const synced = await client.sync(AT_ONCE);
    // A proxy that was away takes the batch of before first.
    const waits = error === "PostponedError";
    assert.deepEqual(
      [synced.epoch, synced.outcome, synced.abandonedEpoch],
      [2, "sent", waits ? 1 : null],
    );
    assert.deepEqual(distinct(world.received).map(epochOf), waits ? [2] : [1, 2]);
    assert.deepEqual(
      (await charges(world)).map(({ epoch }) => epoch),
      [1, 2],
    );
  });
}

test("the proxy is not sent a batch before the time that it named, not after a reload either", async (t) => {
  const world = await World.begin(t);
  world.answer = toBatches(429, "", { "retry-after": "90" });
  await assert.rejects((await world.client()).sync(AT_ONCE), {
    name: "PostponedError",
    message: /Its cost is charged already/,
    retryAfter: 90,
  });
  world.requests.length = 0;
  world.answer = () => false;
  world.now += 89;
  const reloaded = await world.open();
  await assert.rejects(reloaded.sync(AT_ONCE), { name: "PostponedError", retryAfter: 1 });
  const methods = world.requests.map((request) => request.method);
  assert.deepEqual(methods, ["GET", "GET", "GET"], "what is published is fetched all the same");
  world.now += 1;
  assert.equal((await reloaded.sync(AT_ONCE)).outcome, "sent");
});

// Forgetting on the way.

test("what is forgotten while it waits is not sent", async (t) => {
  const world = await World.begin(t);
  const client = await world.client({ sleep: whileWaiting(world, () => client.forget()) });
  assert.equal((await client.sync({ jitter: 60 })).outcome, "already charged");
  assert.deepEqual(world.received, []);
  assert.equal((await charges(world)).length, 1);
  assert.equal((await client.sync(AT_ONCE)).outcome, "already charged");
});

test("a pause holds and ends", async (t) => {
  const world = await World.begin(t);
  const client = await world.client({ paused: true });
  const synced = await client.sync(AT_ONCE);
  assert.equal(synced.outcome, "paused");
  assert.equal(synced.sentence, "Reporting is paused.");
  assert.ok(await client.recommend(2));
  assert.deepEqual(await charges(world), []);
  await client.pause(false);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
});

test("a pause is a yes or a no: nothing else ends one by mistake", async (t) => {
  const client = await (await World.begin(t)).client({ paused: true });
  for (const odd of [undefined, null, 0, "yes"]) {
    await assert.rejects(client.pause(odd as unknown as boolean), { name: "SettingsError" });
  }
  assert.equal((await client.status()).paused, true);
});

for (const [which, when] of ["while it waits", "in the last half second"].entries()) {
  test(`a pause ${when} keeps the batch here`, async (t) => {
    const world = await World.begin(t);
    const client = await world.client({
      sleep: whileWaiting(world, () => client.pause(true), which),
    });
    for (const _ of [1, 2]) assert.equal((await client.sync(AT_ONCE)).outcome, "paused");
    assert.deepEqual(world.received, []);
    const waiting = await client.lastBatch();
    assert.equal(waiting?.state, "charged");
    await client.pause(false);
    const resumed = await client.sync(AT_ONCE);
    assert.deepEqual([resumed.outcome, resumed.spentEpsilon], ["sent", COST]);
    assert.deepEqual(world.received, [waiting?.bytes]);
  });
}

test("a batch that a visit left behind waits for its moment, and stays here if its owner pauses before", async (t) => {
  const world = await World.begin(t);
  const closed = whileWaiting(world, () => Promise.reject(new Error("the page was closed")));
  await assert.rejects((await world.client({ sleep: closed })).sync({ jitter: 60 }), /closed/);
  const [{ sendAt = 0 } = {}] = (await dump(world.factory)).batches as { sendAt?: number }[];
  world.now = sendAt - LEAD / 2;
  const next = await world.open({ sleep: whileWaiting(world, () => next.pause(true)) });
  assert.equal((await next.sync({ jitter: 60 })).outcome, "paused");
  assert.deepEqual(world.received, []);
  assert.equal((await next.lastBatch())?.state, "charged");
  await next.pause(false);
  world.now = sendAt - LEAD / 2;
  let sent = 0;
  world.answer = (_, call) => {
    if (call === "batches") sent = world.now;
    return false;
  };
  assert.equal((await next.sync()).outcome, "sent");
  assert.ok(sent >= sendAt && sendAt > 0, `${sent}, ${sendAt}`);
});

test("while an old batch waits no second one is made", async (t) => {
  const world = await World.begin(t);
  const client = await world.client({ sleep: whileWaiting(world, () => client.pause(true)) });
  await client.sync({ jitter: 60 });
  await world.publish(2, { opens: DAY, closes: 3 * DAY });
  world.answer = async (_, call) => {
    await (call === "manifest" && client.pause(false));
    return false;
  };
  assert.equal((await client.sync(AT_ONCE)).outcome, "paused");
  assert.deepEqual((await client.status()).batches, { charged: 1, sent: 0, dropped: 0 });
  world.answer = toBatches(410);
  assert.equal((await client.sync(AT_ONCE)).abandonedEpoch, 1);
  assert.deepEqual((await client.status()).batches, { charged: 0, sent: 0, dropped: 2 });
});

test("at the limit reporting stops and recommending goes on", async (t) => {
  const world = await World.begin(t);
  const client = await world.client({ limit: COST + 1 });
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  world.now += DAY;
  await world.publish(2);
  for (const _ of [1, 2]) {
    const {
      outcome,
      spentEpsilon: spent,
      remainingEpsilon: remaining,
    } = await client.sync(AT_ONCE);
    assert.deepEqual([outcome, spent, remaining], ["limit reached", COST, 1]);
  }
  assert.equal((await client.recommend(3)).length, 3);
  assert.equal(world.received.length, 1);
  assert.equal((await client.lastBatch())?.epoch, 1);
});

test("the limit is looked at before any coin is tossed", async (t) => {
  const world = await World.begin(t);
  const never = () => assert.fail("a coin was tossed");
  const client = await world.client({ limit: COST - 1, words: never, entropy: never });
  assert.equal((await client.sync()).outcome, "limit reached");
});

test("what is changed while the batch is sealed goes into it", async (t) => {
  const world = await World.begin(t);
  let sealed = 0;
  const client = await world.client({
    words: (reports) => {
      sealed += 1;
      if (sealed === 1) {
        client.forget();
      }
      return sameWords(reports);
    },
  });
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  assert.equal(sealed, 2);
  const release = await client.release(1);
  assert.ok(release);
  const { reports } = await makeReports(release.manifest, release.V, [], sameWords(REPORTS));
  assert.deepEqual(await world.opened(world.received[0] as Uint8Array), [...reports]);
  assert.equal((await charges(world)).length, 1);
});

test("forgetting leaves settings and charges, and no trace of an item", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.record(Array.from({ length: 200 }, (_, n) => `a-very-private-thing-${n}`));
  world.answer = toBatches(503);
  await assert.rejects(client.sync(AT_ONCE));
  const waiting = await client.lastBatch();
  assert.equal(waiting?.state, "charged");
  const before = await dump(world.factory);
  for (const store of ["settings", "history", "files", "batches", "charges", "plans", "shown"]) {
    assert.ok((before[store] ?? []).length > 0, store);
  }
  await client.forget();
  const { settings, charges: paid, plans, ...others } = await dump(world.factory);
  assert.deepEqual(others, { history: [], files: [], batches: [], shown: [], tokens: [] });
  assert.deepEqual(paid, before.charges);
  const [was, is] = [before.settings?.[0], settings?.[0]] as { generation: string }[];
  assert.notEqual(is?.generation, was?.generation);
  // The batch that waited may have left, which no token may follow soon.
  assert.deepEqual(is, { ...was, generation: is?.generation, lastOver: world.now });
  assert.deepEqual(plans, before.plans);
  assert.equal(
    Object.keys(settings?.[0] as object)
      .sort()
      .join(" "),
    "asked generation key lastOver limit newest only paused proxy shelf since terms trusted",
  );
  await client.record([item(9)]);
  // Nor of how much there was.
  assert.deepEqual((await dump(world.factory)).history, [
    { only: 1, items: [{ id: item(9), moment: 1 }] },
  ]);
});

test("what was spent stays spent and what was agreed stays agreed", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.sync(AT_ONCE);
  await client.pause(true);
  await client.forget();
  const status = await client.status();
  assert.deepEqual([status.touched, status.epoch, status.manifest], [0, 1, null]);
  assert.deepEqual(status.batches, { charged: 0, sent: 0, dropped: 0 });
  assert.deepEqual([status.spentEpsilon, status.paused, status.terms], [COST, true, TERMS]);
  assert.equal(await client.lastBatch(), null);
  await assert.rejects(client.recommend(), StoreError);
  await assert.rejects(client.catalogue(), StoreError);
  await client.pause(false);
  assert.equal((await client.sync(AT_ONCE)).outcome, "already charged");
  assert.equal((await client.recommend(1)).length, 1);
  assert.deepEqual([distinct(world.received).length, (await charges(world)).length], [1, 1]);
});

/** The same three items: in another order, at one moment or at several, one of them twice. */
const ORDERS = [
  [[3, 7, 20]],
  [[20, 7, 3]],
  [[7], [20], [3]],
  [[3], [20, 7], [3]],
  [[20, 9], [7, 3], [20]], // and 9, which is removed again
].map((moments) => moments.map((numbers) => numbers.map(item)));

/** Enough reports, with noise low enough, to tell histories apart. */
const LOUD = { reports: 30, epsilon: 10 };

const CATALOGUES = [traitsOf, () => ({}), (n: number) => ({ brand: [`${n % 2}`], price: n / 4 })];

/** Sync a new device with the same coins; return its requests and the reports in its batch. */
async function syncNewDevice(world: World, moments: readonly (readonly string[])[]) {
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
  const syncsOfCatalogues = [];
  for (const traits of CATALOGUES) {
    await world.publish(1, { catalogue: await world.add(encodeCatalogue(ITEMS, traits)) });
    const ofOrders = [];
    for (const moments of ORDERS) ofOrders.push(await syncNewDevice(world, moments));
    for (const other of ofOrders) assert.deepEqual(other, ofOrders[0]);
    syncsOfCatalogues.push(ofOrders[0]);
  }
  const [first] = syncsOfCatalogues;
  for (const other of syncsOfCatalogues) {
    assert.deepEqual(other?.requests, first?.requests);
    assert.deepEqual(other?.reports, first?.reports);
  }
  const elsewhere = await syncNewDevice(world, [[item(4), item(5)]]);
  assert.notDeepEqual(elsewhere.reports, first?.reports, "the test could tell");
});
