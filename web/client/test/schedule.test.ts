/** When looks happen: at whole ticks, whatever wakes the schedule and however long a look takes. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { lookBack } from "../src/looking.js";
import { systemTimer } from "../src/options.js";
import { type Looked, Schedule, TICK } from "../src/schedule.js";
import { manifestWith } from "./vectors.js";
import { Virtual } from "./virtual.js";

const WELL: Looked = { isWell: true, retryAfter: 0 };
const SEEN = { visible: true, online: true };

/** Looks at these ticks, of which each may go otherwise and take its time. */
function scheduled(results: Looked[] = [], { pace = TICK, durations = [] as number[] } = {}) {
  const timer = new Virtual();
  const start = timer.time;
  const ticks: number[] = [];
  const look = async () => {
    ticks.push((timer.time - start) / TICK);
    await timer.sleep(durations.shift() ?? 0);
    return results.shift() ?? WELL;
  };
  const schedule = new Schedule(pace, look, timer);
  return { timer, ticks, schedule };
}

test("nothing happens before the page has spoken; then soon, then at every pace", async () => {
  const { timer, ticks, schedule } = scheduled([], { pace: 2 * TICK });
  schedule.wake();
  await timer.pass(100);
  assert.deepEqual(ticks, []);
  const later = 100 / TICK;
  schedule.meet(SEEN);
  await timer.pass(5 * TICK);
  assert.deepEqual(ticks, [later, later + 2, later + 4]);
});

test("a clock that moves between two readings does not cost the first look a tick", async () => {
  const { timer, ticks, schedule } = scheduled();
  const { now } = timer;
  let read = 0;
  timer.now = () => now() + 1e-4 * read++;
  schedule.meet(SEEN);
  timer.now = now;
  await timer.pass(1);
  assert.equal(ticks.length, 1);
});

test("a look that takes long shows in whole ticks", async () => {
  const { timer, ticks, schedule } = scheduled([], { durations: [1.3, 0.2, 1.4 * TICK, 0] });
  schedule.meet(SEEN);
  await timer.pass(5.2 * TICK);
  assert.deepEqual(ticks, [0, 1, 2, 4, 5]);
});

test("whatever wakes it, the next look is at the next tick", async () => {
  const { timer, ticks, schedule } = scheduled([], { pace: 12 * TICK });
  schedule.meet(SEEN);
  await timer.pass(1.7 * TICK);
  schedule.wake();
  schedule.wake();
  await timer.pass(TICK);
  schedule.meet({ ...SEEN, visible: false });
  await timer.pass(0.4 * TICK);
  schedule.meet(SEEN);
  await timer.pass(2 * TICK);
  assert.deepEqual(ticks, [0, 2, 4]);
});

test("hidden it looks seldom, offline never, and back it looks at the next tick", async () => {
  const { timer, ticks, schedule } = scheduled();
  schedule.meet({ visible: false, online: true });
  await timer.pass(25 * TICK);
  schedule.meet({ ...SEEN, online: false });
  await timer.pass(30 * TICK);
  schedule.meet(SEEN);
  await timer.pass(1.5 * TICK);
  assert.deepEqual(ticks, [0, 12, 24, 55, 56]);
});

test("after failures it is patient", async () => {
  const failed = { isWell: false, retryAfter: 0 };
  const { timer, ticks, schedule } = scheduled(Array(6).fill(failed));
  schedule.meet(SEEN);
  await timer.pass(40.5 * TICK);
  assert.deepEqual(ticks, [0, 1, 3, 7, 15, 27, 39, 40]);
});

test("it waits as long as the proxy asked, counted from its answer and in whole ticks", async () => {
  for (const [retryAfter, duration, next] of [
    [7, 0, 2],
    [2 * TICK, 0, 2],
    [2 * TICK, 0.1, 3],
    [30, 0, 6],
  ] as const) {
    const told = { isWell: false, retryAfter };
    const { timer, ticks, schedule } = scheduled([told], { durations: [duration] });
    schedule.meet(SEEN);
    await timer.pass(TICK);
    schedule.wake();
    await timer.pass(7 * TICK);
    assert.deepEqual(ticks.slice(0, 2), [0, next], `${retryAfter} after ${duration}`);
  }
});

test("a wish during a look is fulfilled after it, not beside it", async () => {
  const { timer, ticks, schedule } = scheduled([], { pace: 12 * TICK, durations: [1.5 * TICK] });
  schedule.meet(SEEN);
  await timer.pass(TICK);
  schedule.wake();
  await timer.pass(2 * TICK);
  assert.deepEqual(ticks, [0, 2]);
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
  schedule.meet(SEEN);
  await timer.pass(86_400 + TICK);
  assert.deepEqual(ticks.slice(0, 2), [0, 86_400 / TICK]);
});

test("to look back is as long as a phone can bear", () => {
  const of = (items: number, factors: number) =>
    lookBack(manifestWith({ items, terms: { factors } }));
  assert.deepEqual([of(9724, 5), of(2 ** 24, 8)], [21, 1]);
});
