import assert from "node:assert/strict";
import test from "node:test";
import { Loop, type Timer } from "../src/work/loop.js";
import { type Looked, nextLook } from "../src/work/pace.js";

const SEEN = { visible: true, online: true };
const WELL: Looked = { failures: 0, retryAfter: null };

test("the pace: seldom when hidden, never offline, patient after failures", () => {
  assert.equal(nextLook(SEEN, WELL), 5);
  assert.equal(nextLook({ ...SEEN, visible: false }, WELL), 60);
  assert.equal(nextLook({ ...SEEN, online: false }, WELL), null);
  const after = (failures: number) => nextLook(SEEN, { failures, retryAfter: null });
  assert.deepEqual([1, 2, 3, 4, 5, 6, 50].map(after), [5, 10, 20, 40, 60, 60, 60]);
  assert.equal(nextLook(SEEN, { failures: 1, retryAfter: 90 }), 90);
});

/** Time that passes when the test says so. */
class Hand implements Timer {
  time = 0;
  #due: { at: number; then: () => void; handle: number } | null = null;
  #handles = 0;

  now(): number {
    return this.time;
  }

  start(seconds: number, then: () => void): number {
    this.#handles += 1;
    this.#due = { at: this.time + seconds, then, handle: this.#handles };
    return this.#handles;
  }

  stop(handle: number): void {
    if (this.#due?.handle === handle) this.#due = null;
  }

  get next(): number | null {
    return this.#due === null ? null : this.#due.at - this.time;
  }

  async pass(seconds: number): Promise<void> {
    this.time += seconds;
    const due = this.#due;
    if (due === null || due.at > this.time) return;
    this.#due = null;
    due.then();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function looking(results: Looked[] = []) {
  const timer = new Hand();
  const looks: number[] = [];
  const loop = new Loop(async () => {
    looks.push(timer.time);
    return results.shift() ?? WELL;
  }, timer);
  return { timer, looks, loop };
}

test("nothing happens before the page has spoken; then at once, then every five seconds", async () => {
  const { timer, looks, loop } = looking();
  loop.wake();
  assert.equal(timer.next, null);
  loop.meet(SEEN);
  await timer.pass(0);
  await timer.pass(5);
  assert.deepEqual(looks, [0, 5]);
});

test("how long a look takes does not show in when the next one begins", async () => {
  const durations = [1.3, 0.2, 7, 0];
  const timer = new Hand();
  const looks: number[] = [];
  const loop = new Loop(async () => {
    looks.push(timer.time);
    timer.time += durations.shift() ?? 0;
    return WELL;
  }, timer);
  loop.meet(SEEN);
  await timer.pass(0);
  for (const _ of [1, 2, 3]) await timer.pass(timer.next ?? 0);
  assert.deepEqual(looks, [0, 5, 10, 20]);
});

test("offline it stops, and goes on at once when the network is back", async () => {
  const { timer, looks, loop } = looking();
  loop.meet(SEEN);
  await timer.pass(0);
  loop.meet({ ...SEEN, online: false });
  assert.equal(timer.next, null);
  timer.time = 100;
  loop.meet(SEEN);
  await timer.pass(0);
  assert.deepEqual(looks, [0, 100]);
});

test("whatever wakes it, it waits as long as the proxy asked", async () => {
  const { timer, looks, loop } = looking([{ failures: 1, retryAfter: 30 }]);
  loop.meet(SEEN);
  await timer.pass(0);
  loop.wake();
  assert.equal(timer.next, 30);
  await timer.pass(29);
  await timer.pass(1);
  assert.deepEqual(looks, [0, 30]);
});

test("a wish during a look is fulfilled after it, not beside it", async () => {
  const timer = new Hand();
  let end = (_: Looked) => {};
  let looks = 0;
  const loop = new Loop(() => {
    looks += 1;
    return new Promise((resolve) => {
      end = resolve;
    });
  }, timer);
  loop.meet(SEEN);
  await timer.pass(0);
  loop.wake();
  assert.equal(timer.next, null);
  end(WELL);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(looks, 1);
  assert.equal(timer.next, 0);
});
