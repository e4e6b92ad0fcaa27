/**
 * When the proxy is asked for what: at whole ticks, the same lists of times, whatever was touched and however
 * long everything takes that reads it.
 */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { MAX_HISTORY_ITEMS } from "../src/bounds.js";
import { Grid, STEP_SECONDS } from "../src/grid.js";
import { Outbox } from "../src/outbox.js";
import { type LookOutcome, Schedule, TICK_SECONDS } from "../src/schedule.js";
import { systemTimer } from "../src/timer.js";
import { Issuer, tokenMakerFor } from "./issuer.js";
import { Browser, type Tab, Virtual } from "./virtual.js";
import { DAY, IS_NIGHTLY, item, LEAD, onGrid, REPORTS, reply, TERMS, World } from "./world.js";

/** Seconds that everything takes which reads a history. */
const SLOW = 3;
/** Items of a long history: the longest takes seconds to record and is for the night. */
const MANY = 500;

/** A pause is tried at moments of this distance within the last second before a batch leaves. */
const EARLY_STEP_SECONDS = IS_NIGHTLY ? 0.1 : 0.25;

/** What a person does in a visit, and what happens to them meanwhile. */
type Scene = (tab: Tab, browser: Browser, world: World) => Promise<void>;

const ACCOUNTS = { ...TERMS, accounts: true };

const SCENES: Record<
  string,
  { scene: Scene; jitter?: number; sends: boolean; most?: number; output?: number }
> = {
  "a token in one visit, a batch in the next, and a page that is busy": {
    sends: true,
    output: 64,
    scene: async (_, browser, world) => {
      const { virtual } = browser;
      const issuer = new Issuer();
      world.answer = issuer.answer;
      for (const epoch of [2, 3]) {
        await world.publish(epoch, { ...issuer.fields(epoch), opens: 0, closes: 9 * DAY });
        const tokenMaker = tokenMakerFor(1, virtual, () => browser.cost);
        const visit = await browser.tab({ tokenMaker, pace: 30 });
        await visit.accept(ACCOUNTS);
        visit.show();
        await virtual.pass(70);
        visit.show(true, false);
      }
      assert.deepEqual(
        browser.requests.flatMap(([, what]) => what.match(/(?<=POST .*)\w+$/) ?? []),
        ["tokens", "batches"],
      );
      world.answer = () => false;
    },
  },
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
    most: IS_NIGHTLY ? MAX_HISTORY_ITEMS : MANY,
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

/** Play a visit by a person who touched this number of items; return its requests. */
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
    void tab.listTouched();
    void tab.recommend().catch(() => undefined);
    void tab.score(Array.from({ length: touched }, (_, n) => item(n))).catch(() => undefined);
    if (touched > 0) void tab.listSimilar(item(touched)).catch(() => undefined);
  };
  await scene(tab, browser, world);
  mend();
  return browser.requests;
}

/** Histories and costs that only `make nightly` tries: what they differ in differs by day at once. */
const NIGHTLY_HISTORIES = [
  [0, SLOW],
  [1, 0],
  [1, SLOW],
] as const;

for (const [name, visitor] of Object.entries(SCENES)) {
  test(`the times of all requests are the same for every history: ${name}`, async (t) => {
    const world = await World.begin(t);
    const plain = await visit(t, world, visitor, { touched: 0, cost: 0 });
    assert.ok(plain.length >= 3, JSON.stringify(plain));
    assert.equal(
      plain.some(([, what]) => what.startsWith("POST")),
      visitor.sends,
    );
    for (const [touched, cost] of [
      [visitor.most ?? MANY, SLOW] as const,
      ...(IS_NIGHTLY ? NIGHTLY_HISTORIES : []),
    ]) {
      const seen = await visit(t, world, visitor, { touched, cost });
      assert.deepEqual(seen, plain, `${touched} items, ${cost} seconds`);
    }
    const size = 56 + (visitor.output ?? 0) + 52 * REPORTS;
    for (const batch of world.received) assert.equal(batch.length, size);
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
    const decided = virtual.time + 5 * STEP_SECONDS; // after manifest, model, catalogue, shelf, "taken"
    tab.show();
    await virtual.pass(4);
    virtual.skew = skew; // while it is made
    await virtual.pass(20);
    mend();
    const sent = browser.requests.filter(([, what]) => what.startsWith("POST"));
    const [[moment = 0] = []] = sent;
    assert.equal(sent.length, 1);
    assert.equal(moment, onGrid(decided + leads * LEAD), `${skew}, ${cost}`);
  }
});

/** Make everything that the network's side of a tab reads or writes take this long. */
function slowDown(
  test: TestContext,
  { network: { store }, browser: { virtual } }: Tab,
  seconds: number,
) {
  const slow = (target: object, names: readonly string[]) => {
    for (const name of names) {
      const work = Reflect.get(target, name);
      test.mock.method(
        target as Record<string, () => unknown>,
        name,
        async function (this: unknown, ...args: unknown[]) {
          await virtual.sleep(seconds);
          return work.apply(this, args);
        },
      );
    }
  };
  slow(store, ["readSettings", "listFiles", "readManifest", "readFile", "storeRelease"]);
  slow(Outbox.prototype, ["readState", "readWaitingBatch", "listTokens", "drawPlan"]);
}

test("every request of a visit leaves on one grid, whatever a disk takes between them", async (t) => {
  const world = await World.begin(t);
  const visits: Browser["requests"][] = [];
  for (const seconds of [0, 0.02, 0.1]) {
    for (const epoch of [1, 2, 3, 4, 5]) await world.publish(epoch, { opens: 0, closes: 9 * DAY });
    const browser = new Browser(world);
    const { virtual } = browser;
    const tab = await browser.tab({ pastModels: 4 });
    await tab.accept(TERMS);
    slowDown(t, tab, seconds);
    const begun = virtual.time;
    tab.show();
    await virtual.pass(31);
    await world.publish(6, { opens: 0, closes: 9 * DAY });
    await virtual.pass(31);
    t.mock.restoreAll();
    visits.push(browser.requests.map(([time, what]) => [time - begun, what]));
  }
  const [times = [], ...others] = visits;
  for (const [time, what] of times) assert.equal(time % STEP_SECONDS, 0, `${what}: ${time}`);
  for (const kind of ["manifest", "shelf", "models", "catalogues", "batches"]) {
    assert.ok(
      times.some(([, what]) => what.includes(`/${kind}`)),
      kind,
    );
  }
  const past = times.filter(([, what]) => what.includes("/manifests/"));
  assert.deepEqual(
    past.map(([, what]) => what),
    [4, 3, 2].map((epoch) => `GET /v2/manifests/${epoch}`),
  );
  for (const other of others) assert.deepEqual(other, times);
});

test("a disk that takes long shows in whole steps of the same grid", async (t) => {
  const world = await World.begin(t);
  const browser = new Browser(world);
  const { virtual, requests } = browser;
  const tab = await browser.tab({ jitter: 0 });
  await tab.accept(TERMS);
  for (const name of ["readState", "readWaitingBatch"] as const) {
    const read: (this: Outbox, epoch: number) => Promise<unknown> = Outbox.prototype[name];
    t.mock.method(Outbox.prototype, name, async function (this: Outbox, epoch: number) {
      await virtual.sleep(1.2 * STEP_SECONDS);
      return read.call(this, epoch);
    });
  }
  const begun = virtual.time;
  tab.show();
  await virtual.pass(20);
  const [asked = 0, sent = 0] = ["GET /v2/manifest", "POST"].map(
    (what) => requests.find(([, request]) => request.startsWith(what))?.[0],
  );
  assert.equal(asked, begun + 2 * STEP_SECONDS);
  assert.equal(sent, onGrid(asked + 4 * STEP_SECONDS + LEAD) + 2 * STEP_SECONDS);
});

/** Measure when an undisturbed batch leaves, in seconds after the first look. */
async function measureSendingTime(world: World): Promise<number> {
  const browser = new Browser(world);
  const tab = await browser.tab({ jitter: 0 });
  await tab.accept(TERMS);
  const begun = browser.virtual.time;
  tab.show();
  await browser.virtual.pass(60);
  const sent = browser.requests.filter(([, what]) => what.startsWith("POST"));
  assert.equal(sent.length, 1);
  return (sent[0]?.[0] ?? 0) - begun;
}

for (const [name, choose] of [
  ["a pause", (tab: Tab) => tab.pause(true)],
  ["forgetting", (tab: Tab) => tab.forget()],
] as const) {
  for (const where of ["the same tab", "another tab"]) {
    test(`nothing leaves after ${name} in ${where} has returned`, async (t) => {
      const world = await World.begin(t);
      const moment = await measureSendingTime(world);
      for (let early = 0.05; early < 1; early += EARLY_STEP_SECONDS) {
        const browser = new Browser(world);
        const { virtual } = browser;
        const tab = await browser.tab({ jitter: 0 });
        await tab.accept(TERMS);
        const chooser = where === "the same tab" ? tab : await browser.tab({ jitter: 0 });
        tab.show();
        await virtual.pass(moment - early);
        let returned = Number.POSITIVE_INFINITY;
        void choose(chooser).then(() => {
          returned = virtual.time;
        });
        await virtual.pass(60);
        const sent = browser.requests.filter(([, what]) => what.startsWith("POST"));
        assert.ok(returned < virtual.time - 50, `${early}: it returned`);
        for (const [time] of sent) assert.ok(time <= returned, `${early}: ${time - returned}`);
        if (where === "the same tab") assert.deepEqual(sent, [], `${early}`);
      }
    });
  }
}

test("a request whose thread was busy at its step leaves at a later one, and not never", async () => {
  for (const [busy, steps] of [
    [[0.01], 1],
    [[0.1], 2],
    [[0.1, 0.6], 4],
    [Array(9).fill(0.1), 10], // very often late
  ] as const) {
    const timer = new Virtual();
    const late = [...busy];
    const sleep = async (seconds: number) => {
      timer.time += seconds + (late.shift() ?? 0);
    };
    const grid = new Grid({ now: timer.now, sleep });
    grid.mark();
    const begun = timer.time;
    await grid.waitForStep();
    const waited = (timer.time - begun) / STEP_SECONDS;
    assert.ok(waited >= steps && waited < steps + 0.05, `${busy}: ${waited}`);
  }
});

const WELL: LookOutcome = { isWell: true, retryAfter: 0 };
const SEEN = { visible: true, online: true };

/** Looks at these ticks, of which each may go otherwise and take its time. */
function scheduled(
  results: LookOutcome[] = [],
  { pace = TICK_SECONDS, durations = [] as number[] } = {},
) {
  const timer = new Virtual();
  const start = timer.time;
  const ticks: number[] = [];
  const look = async () => {
    ticks.push((timer.time - start) / TICK_SECONDS);
    await timer.sleep(durations.shift() ?? 0);
    return results.shift() ?? WELL;
  };
  const schedule = new Schedule(pace, look, timer);
  return { timer, ticks, schedule };
}

test("a clock that moves between two readings does not cost the first look a tick", async () => {
  const { timer, ticks, schedule } = scheduled();
  const { now } = timer;
  let read = 0;
  timer.now = () => now() + 1e-4 * read++;
  schedule.update(SEEN);
  timer.now = now;
  await timer.pass(1);
  assert.equal(ticks.length, 1);
});

test("a look that takes long shows in whole ticks", async () => {
  const { timer, ticks, schedule } = scheduled([], {
    durations: [1.3, 0.2, 1.4 * TICK_SECONDS, 0],
  });
  schedule.update(SEEN);
  await timer.pass(5.2 * TICK_SECONDS);
  assert.deepEqual(ticks, [0, 1, 2, 4, 5]);
});

test("whatever wakes it, the next look is at the next tick", async () => {
  const { timer, ticks, schedule } = scheduled([], { pace: 12 * TICK_SECONDS });
  schedule.update(SEEN);
  await timer.pass(1.7 * TICK_SECONDS);
  schedule.wake();
  schedule.wake();
  await timer.pass(TICK_SECONDS);
  schedule.update({ ...SEEN, visible: false });
  await timer.pass(0.4 * TICK_SECONDS);
  schedule.update(SEEN);
  await timer.pass(2 * TICK_SECONDS);
  assert.deepEqual(ticks, [0, 2, 4]);
});

test("hidden it looks seldom, offline never, and back it looks at the next tick", async () => {
  const { timer, ticks, schedule } = scheduled();
  schedule.update({ visible: false, online: true });
  await timer.pass(25 * TICK_SECONDS);
  schedule.update({ ...SEEN, online: false });
  await timer.pass(30 * TICK_SECONDS);
  schedule.update(SEEN);
  await timer.pass(1.5 * TICK_SECONDS);
  assert.deepEqual(ticks, [0, 12, 24, 55, 56]);
});

test("after failures it is patient", async () => {
  const failed = { isWell: false, retryAfter: 0 };
  const { timer, ticks, schedule } = scheduled(Array(6).fill(failed));
  schedule.update(SEEN);
  await timer.pass(40.5 * TICK_SECONDS);
  assert.deepEqual(ticks, [0, 1, 3, 7, 15, 27, 39, 40]);
});

test("it waits as long as the proxy asked, counted from its answer and in whole ticks", async () => {
  for (const [retryAfter, duration, next] of [
    [7, 0, 2],
    [2 * TICK_SECONDS, 0, 2],
    [2 * TICK_SECONDS, 0.1, 3],
    [30, 0, 6],
  ] as const) {
    const busy = { isWell: false, retryAfter };
    const { timer, ticks, schedule } = scheduled([busy], { durations: [duration] });
    schedule.update(SEEN);
    await timer.pass(TICK_SECONDS);
    schedule.wake();
    await timer.pass(7 * TICK_SECONDS);
    assert.deepEqual(ticks.slice(0, 2), [0, next], `${retryAfter} after ${duration}`);
  }
});

test("a time that no browser's timer can count is not over at once, and no proxy asks for years", async () => {
  let fired = 0;
  const handle = systemTimer.start(1e9, async () => {
    fired += 1;
  });
  await systemTimer.sleep(0.05);
  systemTimer.stop(handle);
  assert.equal(fired, 0);
  const { timer, ticks, schedule } = scheduled([{ isWell: false, retryAfter: 1e9 }]);
  schedule.update(SEEN);
  await timer.pass(86_400 + TICK_SECONDS);
  assert.deepEqual(ticks.slice(0, 2), [0, 86_400 / TICK_SECONDS]);
});
