/** When to look again: every rule about time, without a clock. */

/** What the page says of itself. */
export interface Conditions {
  visible: boolean;
  online: boolean;
}

const VISIBLE = 5;
const HIDDEN = 60;
const LONGEST_BACKOFF = 60;

/** How the last look went. */
export interface Looked {
  /** Failures in a row so far. */
  failures: number;
  /** Seconds that the proxy asked to wait, if it did. */
  retryAfter: number | null;
}

/** Seconds to the next look; null: not before something changes. */
export function nextLook({ visible, online }: Conditions, looked: Looked): number | null {
  if (!online) return null;
  const usual = visible ? VISIBLE : HIDDEN;
  const patient = Math.min(LONGEST_BACKOFF, VISIBLE * 2 ** Math.max(0, looked.failures - 1));
  const wanted = looked.failures === 0 ? usual : Math.max(usual, patient);
  return Math.max(wanted, looked.retryAfter ?? 0);
}
