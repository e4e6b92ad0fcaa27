/**
 * When the proxy is asked for what: the same lists of times, whatever was touched and however long
 * everything takes that reads it.
 */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { MOST_TOUCHED } from "../src/bounds.js";
import { STEP } from "../src/schedule.js";
import { item } from "./published.js";
import { Browser, type Tab } from "./virtual.js";
import { DAY, LEAD, REPORTS, reply, TERMS, World } from "./world.js";

/** Seconds that everything takes which reads a history. */
const SLOW = 3;

/** What a person does in a visit, and what happens to them meanwhile. */
type Scene = (tab: Tab, browser: Browser, world: World) => Promise<void>;

const SCENES: Record<string, { scene: Scene; jitter?: number; sends: boolean }> = {
  "a first visit without a yes": {
    sends: false,
    scene: async (tab, { virtual }) => {
      tab.show();
      await virtual.pass(61);
    },
  },
  "a yes, and a moment within a minute": {
    sends: true,
    scene: async (tab, { virtual }) => {
      tab.show();
      await virtual.pass(7.3);
      await tab.accept(TERMS);
      await virtual.pass(90);
    },
  },
  "several epochs without jitter": {
    sends: true,
    jitter: 0,
    scene: async (tab, { virtual }, world) => {
      await tab.accept(TERMS);
      tab.show();
      for (const epoch of [2, 3]) {
        await virtual.pass(31);
        await world.publish(epoch, { opens: 0, closes: 9 * DAY });
      }
      await virtual.pass(100);
    },
  },
  "a proxy that is busy, for the manifest and for the batch": {
    sends: true,
    scene: async (tab, { virtual }, world) => {
      const busy = new Set(["manifest", "batches"]);
      world.answer = (response, call) =>
        busy.delete(call) && reply(response, 503, "", { "retry-after": "7" });
      await tab.accept(TERMS);
      tab.show();
      await virtual.pass(120);
      world.answer = () => false;
    },
  },
  "a page that is hidden, offline, and back": {
    sends: true,
    scene: async (tab, { virtual }) => {
      await tab.accept(TERMS);
      tab.show();
      await virtual.pass(13.3);
      tab.show(false);
      await virtual.pass(61.7);
      tab.show(false, false);
      await virtual.pass(50);
      tab.show();
      await virtual.pass(90);
    },
  },
  "a pause just before the moment, and a new start": {
    sends: true,
    scene: async (tab, { virtual }) => {
      await tab.accept(TERMS);
      tab.show();
      await virtual.pass(21);
      await tab.pause(true);
      await virtual.pass(90);
      await tab.pause(false);
      await virtual.pass(90);
    },
  },
  "a second tab": {
    sends: true,
    scene: async (tab, browser) => {
      await tab.accept(TERMS);
      tab.show();
      await browser.virtual.pass(12);
      const other = await browser.tab({ jitter: 60 });
      other.show();
      await browser.virtual.pass(90);
    },
  },
  "a clock that is set back while the moment is waited for": {
    sends: true,
    scene: async (tab, { virtual }) => {
      await tab.accept(TERMS);
      tab.show();
      await virtual.pass(12);
      virtual.skew = -1800;
      await virtual.pass(200);
    },
  },
};

/** The requests of a visit by somebody who touched so many items. */
async function visit(
  test: TestContext,
  world: World,
  { scene, jitter = 60 }: { scene: Scene; jitter?: number },
  { touched, cost }: { touched: number; cost: number },
): Promise<Browser["requests"]> {
  await world.publish(1);
  const browser = new Browser(world);
  const mend = browser.slow();
  test.after(mend);
  const tab = await browser.tab({ jitter });
  await tab.record(Array.from({ length: touched }, (_, n) => (n < 20 ? item(n) : `item-${n}`)));
  browser.cost = cost;
  // An application asks for everything again whenever there is another model, as the page does.
  let shown: number | null = null;
  tab.hear = ({ epoch }) => {
    if (epoch === shown) return;
    shown = epoch;
    void tab.touched();
    void tab.recommend().catch(() => undefined);
  };
  await scene(tab, browser, world);
  mend();
  return browser.requests;
}

for (const [name, told] of Object.entries(SCENES)) {
  test(`the times of all requests are the same for every history: ${name}`, async (t) => {
    const world = await World.begin(t);
    const plain = await visit(t, world, told, { touched: 0, cost: 0 });
    assert.ok(plain.length >= 3, JSON.stringify(plain));
    assert.equal(
      plain.some(([, what]) => what.startsWith("POST")),
      told.sends,
    );
    for (const [touched, cost] of [
      [0, SLOW],
      [1, 0],
      [1, SLOW],
      [MOST_TOUCHED, SLOW],
    ] as const) {
      const seen = await visit(t, world, told, { touched, cost });
      assert.deepEqual(seen, plain, `${touched} items, ${cost} seconds`);
    }
    for (const batch of world.received) assert.equal(batch.length, 56 + 52 * REPORTS);
  });
}

test("the moment of sending is fixed before the batch is made, by a clock that nobody sets", async (t) => {
  for (const [skew, cost, leads] of [
    [0, 0, 1],
    [-1800, 0, 1],
    [1800, SLOW, 1],
    [-1800, 1.5 * LEAD, 2], // what takes too long shows in whole leads
  ] as const) {
    const world = await World.begin(t);
    const browser = new Browser(world);
    const { virtual } = browser;
    const tab = await browser.tab({ jitter: 0 });
    await tab.accept(TERMS);
    browser.cost = cost;
    const mend = browser.slow();
    t.after(mend);
    const decided = virtual.time + STEP;
    tab.show();
    await virtual.pass(2);
    virtual.skew = skew; // while it is made
    await virtual.pass(20);
    mend();
    const sent = browser.requests.filter(([, what]) => what.startsWith("POST"));
    const [[moment = 0] = []] = sent;
    assert.equal(sent.length, 1);
    assert.ok(Math.abs(moment - (decided + leads * LEAD)) < 1e-6, `${skew}, ${cost}: ${moment}`);
  }
});
