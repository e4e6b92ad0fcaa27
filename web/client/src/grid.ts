/** The grid: the moments at which requests leave. */

import type { Timer } from "./timer.js";

/** Seconds between two moments at which a request may leave. */
export const STEP_SECONDS = 0.5;
/**
 * Minimum number of seconds from an answer to the next request. Reading from the disk in between
 * takes less.
 */
export const MIN_GAP_SECONDS = STEP_SECONDS / 2;
/**
 * A request may leave up to this many seconds after a step. A later request waits for the next
 * step.
 */
const MAX_LATENESS_SECONDS = 0.02;

/**
 * The moments at which requests leave. They are whole steps from the beginning of the first look of
 * a visit.
 *
 * The step of a request is fixed when the previous answer arrives, or when the look begins. Disk
 * accesses that another thread may delay come after that, so they delay a request by whole steps or
 * not at all.
 */
export class Grid {
  #origin: number | null = null;
  /** When the last look began or the last answer arrived. */
  #lastEvent = 0;

  constructor(private readonly timer: Pick<Timer, "now" | "sleep">) {}

  /** Record that a look begins or an answer has arrived. */
  mark(): void {
    this.#lastEvent = this.timer.now();
    this.#origin ??= this.#lastEvent;
  }

  /** Return the first step that is not before this moment. */
  roundUp(moment: number): number {
    const origin = this.#origin ?? moment;
    return origin + Math.ceil((moment - origin) / STEP_SECONDS - ROUNDING_SECONDS) * STEP_SECONDS;
  }

  /**
   * Wait for the step of the next request, which is the first one at least `MIN_GAP_SECONDS` after
   * the last answer or the beginning of the look.
   *
   * If a timer fires too late, this method waits for the following step, so that no request leaves
   * between two steps. If the signal is aborted, it returns, and the caller must not make the
   * request.
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

/** Moments that are closer together than this count as equal. */
export const ROUNDING_SECONDS = 1e-6;
