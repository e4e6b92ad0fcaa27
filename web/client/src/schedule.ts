/** The schedule of looks for news. */

import { ROUNDING_SECONDS } from "./grid.js";
import type { Timer } from "./timer.js";

/** What the page knows about itself. */
export interface Conditions {
  visible: boolean;
  online: boolean;
}

/** Whether a look went well. */
export interface LookOutcome {
  isWell: boolean;
  /** Seconds from now for which the proxy wants no request. */
  retryAfter: number;
}

/** Seconds between two moments at which a look can happen. */
export const TICK_SECONDS = 5;
/** No proxy keeps a device away for longer. */
const MAX_RETRY_SECONDS = 86_400;
/** Ticks between two looks of a hidden page, and after many failures, at least. */
const MIN_TICKS_HIDDEN = 60 / TICK_SECONDS;

/**
 * When the proxy is asked.
 *
 * Looks happen at whole ticks, counted from the first one of a visit, and never between. Whatever
 * wakes the schedule (the owner, the network, a page that becomes visible) moves the next look to
 * the next tick. Otherwise the number of ticks depends on the page's conditions and on the proxy's
 * answers. `Retry-After` counts from the arrival of the answer, and is rounded up to whole ticks.
 *
 * Every request of a look waits for a step of the `Grid`.
 */
export class Schedule {
  /** Offline until the page has described itself. */
  #conditions: Conditions = { visible: false, online: false };
  #first: number | null = null;
  /** Tick of the last look, counted from the first look. */
  #lastTick = -1;
  /** Tick before which the proxy wants no look. */
  #earliestTick = 0;
  #failures = 0;
  #handle: number | null = null;
  #isLooking = false;
  #isWanted = false;

  /** Ticks between two looks of a visible page. */
  readonly #usualTicks: number;

  constructor(
    pace: number,
    private readonly look: () => Promise<LookOutcome>,
    private readonly timer: Timer,
  ) {
    this.#usualTicks = Math.ceil(pace / TICK_SECONDS);
  }

  /** Take in new conditions: the page became visible or hidden, or the network came or went. */
  update(conditions: Conditions): void {
    const { visible, online } = this.#conditions;
    const isBetter = (conditions.online && !online) || (conditions.visible && !visible);
    this.#conditions = conditions;
    this.#isWanted ||= isBetter;
    this.#plan();
  }

  /** Look at the next tick. */
  wake(): void {
    this.#isWanted = true;
    this.#plan();
  }

  #plan(): void {
    if (this.#handle !== null) this.timer.stop(this.#handle);
    this.#handle = null;
    if (this.#isLooking || !this.#conditions.online) return;
    const now = this.timer.now(); // read once: a second reading could be a tick later
    this.#first ??= now;
    const soonest = Math.max(
      this.#lastTick + 1,
      Math.ceil((now - this.#first - ROUNDING_SECONDS) / TICK_SECONDS),
    );
    const next = Math.max(
      this.#isWanted ? 0 : this.#lastTick + this.#countTicksToWait(),
      this.#earliestTick,
      soonest,
    );
    const wait = this.#first + next * TICK_SECONDS - now;
    this.#handle = this.timer.start(Math.max(0, wait), () => this.#lookAt(next));
  }

  /** Return the ticks between two looks: more when hidden, and after failures. */
  #countTicksToWait(): number {
    const seldom = Math.max(MIN_TICKS_HIDDEN, this.#usualTicks);
    const patient = this.#usualTicks * 2 ** Math.max(0, this.#failures - 1);
    return Math.min(seldom, this.#conditions.visible ? patient : seldom);
  }

  async #lookAt(at: number): Promise<void> {
    this.#handle = null;
    this.#isLooking = true;
    this.#isWanted = false;
    const { isWell, retryAfter: requestedSeconds } = await this.look();
    const retryAfter = Math.min(requestedSeconds, MAX_RETRY_SECONDS);
    const since = this.timer.now() + retryAfter - (this.#first ?? 0);
    this.#earliestTick = retryAfter > 0 ? Math.ceil((since - ROUNDING_SECONDS) / TICK_SECONDS) : 0;
    this.#failures = isWell ? 0 : this.#failures + 1;
    this.#lastTick = at;
    this.#isLooking = false;
    this.#plan();
  }
}
