/** The moments at which requests leave. */

import type { Timer } from "./timer.js";

/** Seconds between two moments at which a request may leave. */
export const STEP_SECONDS = 0.5;
/** The least time from an answer to the next request. Reading the disk between them takes less. */
export const MIN_GAP_SECONDS = STEP_SECONDS / 2;
/** A request that is later than this after its step leaves at the next step. */
const MAX_LATENESS_SECONDS = 0.02;

/**
 * The moments at which requests leave: whole steps from the beginning of a visit's first look.
 *
 * The step of a request is fixed when the previous answer arrives, or when its look begins. Disk
 * accesses that another thread may delay come after that: they delay a request by whole steps or
 * not at all.
 */
export class Grid {
  #origin: number | null = null;
  /** When the last look began or the last answer arrived. */
  #lastEvent = 0;

  constructor(private readonly timer: Pick<Timer, "now" | "sleep">) {}

  /** Note that a look begins or an answer has arrived. */
  mark(): void {
    this.#lastEvent = this.timer.now();
    this.#origin ??= this.#lastEvent;
  }

  /** Return the first step that is not before a moment. */
  roundUp(moment: number): number {
    const origin = this.#origin ?? moment;
    return origin + Math.ceil((moment - origin) / STEP_SECONDS - ROUNDING_SECONDS) * STEP_SECONDS;
  }

  /**
   * Wait for the step of the next request: the first one at least `MIN_GAP_SECONDS` after the last
   * event.
   *
   * After a late timer it waits for the next step, however often: no request leaves between steps.
   * An aborted request waits no longer; its sender must not make it.
   */
  async waitForStep(signal?: AbortSignal | null): Promise<void> {
    const { now, sleep } = this.timer;
    const earliest = this.#lastEvent + MIN_GAP_SECONDS;
    while (!signal?.aborted) {
      const step = this.roundUp(Math.max(earliest, now()));
      await sleep(Math.max(step - now(), 0));
      if (now() - step < MAX_LATENESS_SECONDS) return;
    }
  }
}

/** A moment that is nearer than this is the same. */
export const ROUNDING_SECONDS = 1e-6;
