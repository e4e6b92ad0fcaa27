/** The clocks and timers of a browser. */

/** The system clock, the monotonic clock, and timers. */
export interface Timer {
  /** Return Unix seconds. */
  clock(): number;
  /** Return seconds of the monotonic clock, which nobody can set back. */
  now(): number;
  sleep(seconds: number): Promise<void>;
  /** Run work after this number of seconds, and return a handle for `stop`. */
  start(seconds: number, work: () => Promise<void>): number;
  stop(handle: number): void;
}

/** Longest delay of `setTimeout`, which fires at once for a longer one. */
const MAX_TIMEOUT_MILLISECONDS = 2 ** 31 - 1;

/** The clocks of this browser. */
export const systemTimer: Timer = {
  clock: () => Date.now() / 1000,
  now: () => performance.now() / 1000,
  sleep: async (seconds) => {
    for (
      let milliseconds = Math.ceil(seconds * 1000);
      milliseconds > 0;
      milliseconds -= MAX_TIMEOUT_MILLISECONDS
    ) {
      await new Promise((done) =>
        setTimeout(done, Math.min(milliseconds, MAX_TIMEOUT_MILLISECONDS)),
      );
    }
  },
  // Work that is planned further ahead than the longest delay starts after that delay, and must
  // wait for the rest itself.
  start: (seconds, work) =>
    Number(
      setTimeout(() => void work(), Math.min(Math.ceil(seconds * 1000), MAX_TIMEOUT_MILLISECONDS)),
    ),
  stop: (handle) => clearTimeout(handle),
};
