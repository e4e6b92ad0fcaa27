/**
 * Which visits report: how long one must last, for shapes as they are common, by a clock that only a test
 * moves. What a browser and a network take comes on top (`tests/nightly/web/test_visits.py`).
 */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { STEP_SECONDS } from "../src/grid.js";
import { TICK_SECONDS } from "../src/schedule.js";
import { computeLead } from "../src/timing.js";
import { Browser } from "./virtual.js";
import {
  DAY,
  dump,
  encodeCatalogue,
  encodeModel,
  IS_NIGHTLY,
  item,
  onGrid,
  reply,
  TERMS,
  World,
} from "./world.js";

const SHAPES = [
  { items: 500, reports: 1 },
  { items: 10_000, reports: 20 },
];
const LENGTHS = [5, 15, 30, 60, 120];
const VISITS = IS_NIGHTLY ? 8 : 3;
const factors = 16;

/** Start a proxy that has a model of this shape; return it with its terms. */
async function serveShape(test: TestContext, { items, reports }: (typeof SHAPES)[number]) {
  const world = await World.begin(test);
  const values = Float32Array.from(
    { length: items * factors },
    (_, n) => ((n * 7) % 13) / 26 - 0.2,
  );
  await world.publish(1, {
    ...{ items, model: await world.add(encodeModel(values, items, factors)) },
    catalogue: await world.add(encodeCatalogue(items)),
    terms: { factors, reports, max_items: items },
  });
  return { world, terms: { ...TERMS, factors, reports, maxItems: items } };
}

for (const shape of SHAPES) {
  const { items, reports } = shape;
  test(`visits of 15 seconds report: ${items} items, k = ${reports}`, async (t) => {
    const { world, terms } = await serveShape(t, shape);
    const sent = LENGTHS.map(() => 0);
    const paid = LENGTHS.map(() => 0);
    for (let seed = 1; seed <= VISITS; seed += 1) {
      const browser = new Browser(world, seed);
      const tab = await browser.tab({ pace: 30 });
      await tab.accept(terms);
      await tab.record([item(1), item(2)]);
      tab.show();
      let now = 0;
      for (const [at, length] of LENGTHS.entries()) {
        await browser.virtual.pass(length - now);
        now = length;
        const [batch] = (await dump(browser.factory)).batches as { state: string }[];
        if (batch?.state === "sent") sent[at] = (sent[at] ?? 0) + 1;
        if (batch?.state === "charged") paid[at] = (paid[at] ?? 0) + 1;
      }
    }
    assert.deepEqual(sent, [0, VISITS, VISITS, VISITS, VISITS]);
    assert.deepEqual(paid.slice(1), [0, 0, 0, 0]);
    // Paid for 2 seconds before it leaves: 3 in 10, where it was 9 when it was paid for at once.
    assert.ok((paid[0] ?? 0) <= VISITS / 2, `${paid[0]} of ${VISITS} had paid after 5 seconds`);
  });
}

/** Unix seconds: another visit in the same epoch. */
const LATER = 1.5 * DAY + 3_600;

test("a batch that could not leave goes within the first seconds of the next visit", async (t) => {
  const { world, terms } = await serveShape(t, { items: 500, reports: 1 });
  const browser = new Browser(world);
  const { virtual, requests } = browser;
  const first = await browser.tab({ jitter: 0 });
  await first.accept(terms);
  first.show();
  await virtual.pass(5); // made and paid for
  first.show(true, false);
  world.answer = (response, call) => call === "batches" && !!response.destroy();
  await virtual.pass(LATER - virtual.time);
  const { charges, batches } = await dump(browser.factory);
  const [batch] = batches as { bytes: Uint8Array }[];
  world.answer = () => false;
  requests.length = 0;
  (await browser.tab({})).show();
  await virtual.pass(2);
  assert.deepEqual(requests[0], [LATER + STEP_SECONDS, "POST /v2/batches"]);
  assert.deepEqual(world.received, [batch?.bytes]);
  assert.deepEqual((await dump(browser.factory)).charges, charges);
});

test("a moment that is over, or far ahead since a clock was set back, is one lead after the first look", async (t) => {
  const { world, terms } = await serveShape(t, { items: 500, reports: 1 });
  const step = computeLead({ items: 500, terms } as Parameters<typeof computeLead>[0]);
  for (const skew of [3_600, -3_600]) {
    const browser = new Browser(world);
    const { virtual, requests } = browser;
    const first = await browser.tab();
    await first.accept(terms);
    first.show();
    await virtual.pass(6 * STEP_SECONDS); // a plan, and no batch
    assert.equal(((await dump(browser.factory)).plans as unknown[]).length, 1);
    first.show(true, false);
    await first.pause(true); // it leaves
    await virtual.pass(20);
    await first.pause(false);
    virtual.skew = skew;
    requests.length = 0;
    const begun = virtual.time;
    (await browser.tab({})).show();
    await virtual.pass(TICK_SECONDS + step);
    const [[moment = 0] = []] = requests.filter(([, what]) => what.startsWith("POST"));
    assert.equal(moment, onGrid(begun + 3 * STEP_SECONDS + step), `${skew}`); // after three questions
  }
});

for (const status of [410, 429, 503]) {
  test(`nobody pays while the proxy would answer ${status}, and lists are renewed all the same`, async (t) => {
    const { world, terms } = await serveShape(t, { items: 500, reports: 1 });
    const browser = new Browser(world);
    const { virtual, requests } = browser;
    const tab = await browser.tab({ pace: 30 });
    await tab.accept(terms);
    await tab.record([item(1), item(2)]);
    const headers = { "retry-after": "3600" };
    world.answer = (response, call) => call === "taken" && reply(response, status, "", headers);
    tab.show();
    await virtual.pass(60);
    await world.layOut(2 * DAY, await world.add(encodeCatalogue(499))); // one is withdrawn
    await virtual.pass(60);
    assert.equal((await tab.listItems()).length, 499);
    const { charges, batches, plans } = await dump(browser.factory);
    assert.deepEqual([charges, batches, (plans as unknown[]).length], [[], [], 1]);
    assert.ok(requests.every(([, what]) => what.startsWith("GET")));
    world.answer = () => false;
    await virtual.pass(60);
    assert.equal(world.received.length, 1, "when there is room, it reports");
  });
}
