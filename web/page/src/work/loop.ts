/**
 * Looks for news again and again, at the pace of pace.ts.
 *
 * Counted from when the last look began, in whole paces: what a look computes from the films here, and
 * how long that takes, must not show in when the proxy is asked next.
 */
import { type Conditions, type Looked, nextLook } from "./pace.js";

/** Calls back after some seconds, and can be told not to. */
export interface Timer {
  start(seconds: number, then: () => void): number;
  stop(handle: number): void;
  /** Unix seconds. */
  now(): number;
}

/** The real one. */
export const systemTimer: Timer = {
  start: (seconds, then) => Number(setTimeout(then, seconds * 1000)),
  stop: (handle) => clearTimeout(handle),
  now: () => Date.now() / 1000,
};

/** One look at a time; a wish for another one is remembered while it lasts. */
export class Loop {
  readonly #look: () => Promise<Looked>;
  readonly #timer: Timer;
  /** Until the page has said what the world is like, there is nothing to look at. */
  #conditions: Conditions = { visible: false, online: false };
  #looked: Looked = { failures: 0, retryAfter: null };
  #notBefore = 0;
  #begun = 0;
  #handle: number | null = null;
  #looking = false;
  #again = false;

  constructor(look: () => Promise<Looked>, timer: Timer = systemTimer) {
    this.#look = look;
    this.#timer = timer;
  }

  /** The page came into sight or went out of it, or the network did. */
  meet(conditions: Conditions): void {
    const better =
      (conditions.online && !this.#conditions.online) ||
      (conditions.visible && !this.#conditions.visible);
    this.#conditions = conditions;
    if (better) this.wake();
    else this.#plan();
  }

  /** Look now, but never before the time that the proxy asked to wait for. */
  wake(): void {
    if (this.#looking) this.#again = true;
    else this.#in(Math.max(0, this.#notBefore - this.#timer.now()));
  }

  async #now(): Promise<void> {
    this.#handle = null;
    this.#looking = true;
    this.#begun = this.#timer.now();
    this.#looked = await this.#look();
    this.#looking = false;
    this.#notBefore = this.#timer.now() + (this.#looked.retryAfter ?? 0);
    this.#goOn();
  }

  #goOn(): void {
    const again = this.#again;
    this.#again = false;
    if (again) this.wake();
    else this.#plan();
  }

  #plan(): void {
    if (this.#looking) return;
    const seconds = nextLook(this.#conditions, this.#looked);
    if (seconds === null) this.#stop();
    else this.#in(this.#left(seconds));
  }

  /** To the next whole pace, and never before the time that the proxy asked to wait for. */
  #left(seconds: number): number {
    const now = this.#timer.now();
    return Math.max(seconds - ((now - this.#begun) % seconds), this.#notBefore - now);
  }

  #in(seconds: number): void {
    this.#stop();
    if (!this.#conditions.online) return;
    this.#handle = this.#timer.start(seconds, () => void this.#now());
  }

  #stop(): void {
    if (this.#handle !== null) this.#timer.stop(this.#handle);
    this.#handle = null;
  }
}
