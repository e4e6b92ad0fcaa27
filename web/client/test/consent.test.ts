/** A yes: it counts for exactly the terms and the limit whose sentences were displayed. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { SettingsError, TermsError, UnavailableError } from "../src/errors.js";
import { Store } from "../src/store.js";
import { Browser } from "./virtual.js";
import { AT_ONCE, COST, charges, REPORTS, TERMS, toBatches, World } from "./world.js";

const OPEN_LONG = { opens: 0, closes: 4_000_000 };
const LIMIT = 3 * COST;

test("terms and limit are stored in one step, or not at all", async (t) => {
  const client = await (await World.begin(t)).open();
  const { updateSettings } = Store.prototype;
  let updates = 0;
  t.mock.method(Store.prototype, "updateSettings", function (this: Store, ...args: never[]) {
    updates += 1;
    return (updateSettings as (...args: never[]) => unknown).apply(this, args);
  });
  await client.accept(TERMS, LIMIT);
  const { terms, limit } = await client.status();
  assert.deepEqual([terms, limit, updates], [TERMS, LIMIT, 1]);
  for (const wrong of [-1, Number.NaN, undefined as unknown as number]) {
    const { network } = await new Browser(await World.begin(t)).tab();
    await assert.rejects(network.accept(TERMS, wrong), SettingsError);
    assert.equal((await network.store.readSettings()).terms, null);
  }
});

test("a yes to a question is refused once the server asks for other terms", async (t) => {
  for (const changes of [{ epsilon: 5 }, { epsilon: 1 }, { training: "aa".repeat(16) }]) {
    const world = await World.begin(t);
    const [client, other] = [await world.open(), await world.open()];
    await client.refresh(); // the question about the usual terms is displayed
    await world.publish(2, { ...OPEN_LONG, terms: changes });
    await other.refresh();
    await assert.rejects(client.accept(TERMS, LIMIT), SettingsError);
    const { terms, limit } = await client.status();
    assert.deepEqual([terms, limit], [null, 100], "nothing was accepted");
    await client.accept({ ...TERMS, ...changes }, LIMIT);
    assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  }
});

test("nobody is asked where nothing may leave, and reports asked for later need a yes", async (t) => {
  const world = await World.begin(t);
  await world.publish(2, { ...OPEN_LONG, public_key: null });
  const client = await world.open();
  assert.equal((await client.sync(AT_ONCE)).outcome, "nothing asked");
  const { manifest, offer, newOffer } = await client.status();
  assert.deepEqual([manifest?.epoch, offer, newOffer], [2, null, null]);
  await world.publish(3, OPEN_LONG);
  assert.equal((await client.sync(AT_ONCE)).outcome, "not accepted");
  assert.deepEqual((await client.status()).offer?.terms, TERMS);
  assert.ok(!world.calls().includes("batches"));
  await client.accept(TERMS, LIMIT);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
});

test("a yes to worse terms is refused once the server asks for still others, or for none", async (t) => {
  for (const changes of [{ epsilon: 7 }, {}]) {
    const world = await World.begin(t);
    const client = await world.accepted();
    await client.refresh();
    await world.publish(2, { ...OPEN_LONG, terms: { epsilon: 5 } });
    await assert.rejects(client.refresh(), TermsError);
    await world.publish(3, { ...OPEN_LONG, terms: changes });
    await client.refresh().catch(() => {});
    await assert.rejects(client.accept({ ...TERMS, epsilon: 5 }, LIMIT), SettingsError);
    assert.deepEqual((await client.status()).terms, TERMS);
  }
});

test("worse terms wait for a yes in every tab, also after a restart", async (t) => {
  const world = await World.begin(t);
  const client = await world.accepted();
  await client.refresh();
  await world.publish(2, { ...OPEN_LONG, terms: { epsilon: 5 } });
  await assert.rejects(client.refresh(), TermsError);
  const { newOffer, worse } = await (await world.open()).status();
  assert.deepEqual([newOffer?.terms.epsilon, worse.length], [5, 1]);
  await world.publish(2, OPEN_LONG);
  await client.refresh();
  assert.equal((await client.status()).newOffer, null, "the server has taken them back");
});

test("worse terms wait for a yes also if others were accepted while they were fetched", async (t) => {
  const world = await World.begin(t);
  const client = await world.open();
  await client.refresh();
  await world.publish(2, { ...OPEN_LONG, terms: { epsilon: 5 } });
  world.answer = async (_, call) => {
    if (call === "models") await client.accept(TERMS, LIMIT);
    return false;
  };
  await assert.rejects(client.refresh(), TermsError);
  assert.equal((await client.status()).newOffer?.terms.epsilon, 5);
});

test("the seeds of another epoch do not change a question", async (t) => {
  const world = await World.begin(t);
  const client = await world.open();
  const parameters = { ...TERMS.parameters, directions_seed: 99 };
  await world.publish(2, { ...OPEN_LONG, terms: { parameters } });
  await client.refresh();
  await client.accept(TERMS, LIMIT);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
});

test("after a yes was taken back nothing leaves, however the device goes on", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.sync(AT_ONCE);
  await client.withdraw();
  const { terms, limit, paused, spentEpsilon } = await client.status();
  assert.deepEqual([terms, limit, paused, spentEpsilon], [null, 0, true, COST]);
  await client.pause(false);
  world.now += 86_400;
  await world.publish(2);
  assert.equal((await client.sync(AT_ONCE)).outcome, "not accepted");
  assert.equal(world.received.length, 1);
  await client.accept(TERMS, 2 * COST);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
});

test("a batch that waits when the yes is taken back never leaves, nor after another yes", async (t) => {
  const world = await World.begin(t, OPEN_LONG);
  const client = await world.client();
  world.answer = toBatches(503);
  await assert.rejects(client.sync(AT_ONCE), UnavailableError);
  world.answer = () => false;
  await client.withdraw();
  const { charged } = (await client.status()).batches;
  assert.deepEqual([charged, await client.lastBatch()], [0, null], "its bytes are gone");
  await client.pause(false);
  assert.equal((await client.sync(AT_ONCE)).outcome, "not accepted");
  await client.accept(TERMS, LIMIT);
  assert.equal((await client.sync(AT_ONCE)).outcome, "already charged");
  assert.deepEqual(world.received, []);
  assert.equal((await charges(world)).length, 1, "what was charged stays spent");
});

test("a question counts the reports of a batch that waits", async (t) => {
  const world = await World.begin(t, OPEN_LONG);
  const client = await world.client();
  assert.equal((await client.summarize(TERMS, COST)).reports, REPORTS);
  world.answer = toBatches(503);
  await assert.rejects(client.sync(AT_ONCE), UnavailableError);
  for (const [limit, batches] of [
    [COST, 1],
    [3 * COST, 3],
  ] as const)
    assert.equal((await client.summarize(TERMS, limit)).reports, batches * REPORTS);
  world.answer = () => false;
  await client.sync(AT_ONCE);
  assert.equal((await client.summarize(TERMS, COST)).reports, 0);
});
