/**
 * The schedule of looks for news. A look is one visit to the proxy: all requests that belong
 * together.
 */

import { ROUNDING_SECONDS } from "./grid.js";
import type { Timer } from "./timer.js";

/** What the page knows about its own state. */
export interface Conditions {
  visible: boolean;
  online: boolean;
}

/** The outcome of a look, as far as the schedule needs it. */
export interface LookOutcome {
  isWell: boolean;
  /** Seconds from now during which the proxy wants no request; 0 if it named none. */
  retryAfter: number;
}

/** Seconds between two ticks, the moments at which a look can begin. */
export const TICK_SECONDS = 5;
/** Longest time in seconds for which a proxy can keep a device away. */
const MAX_RETRY_SECONDS = 86_400;
/** Minimum number of ticks between two looks while the page is hidden, and after many failures. */
const MIN_TICKS_HIDDEN = 60 / TICK_SECONDS;

/**
 * Decides when a client looks for news.
 *
 * Looks begin only at whole ticks, counted from the first look of a visit. If the owner chooses
 * something, the network returns or the page becomes visible, the next look moves to the next tick.
 * Otherwise the number of ticks between two looks depends on the conditions of the page and on the
 * proxy's answers. `Retry-After` counts from the arrival of the answer, and is rounded up to whole
 * ticks.
 *
 * Each request of a look additionally waits for a step of the `Grid`.
 */
export class Schedule {
  /** The page counts as offline until it has described its conditions. */
  #conditions: Conditions = { visible: false, online: false };
  #first: number | null = null;
  /** Tick of the last look, counted from the first look. */
  #lastTick = -1;
  /** First tick at which the proxy accepts another look. */
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

  /** Update the conditions: the page became visible or hidden, or the network came or went. */
  update(conditions: Conditions): void {
    const { visible, online } = this.#conditions;
    const isBetter = (conditions.online && !online) || (conditions.visible && !visible);
    this.#conditions = conditions;
    this.#isWanted ||= isBetter;
    this.#plan();
  }

  /** Plan a look at the next tick. */
  wake(): void {
    this.#isWanted = true;
    this.#plan();
  }

  #plan(): void {
    if (this.#handle !== null) this.timer.stop(this.#handle);
    this.#handle = null;
    if (this.#isLooking || !this.#conditions.online) return;
    const now = this.timer.now(); // read only once, because a second reading could be one tick later
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

  /**
   * Return the number of ticks between two looks; it is larger for a hidden page and after
   * failures.
   */
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
