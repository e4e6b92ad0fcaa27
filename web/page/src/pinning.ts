/**
 * Pins the verification key of the server: this browser trusts the key that the page named at its
 * first visit, and no other.
 */

/** Key of `localStorage` for the pinned verification key. */
const PINNED_KEY_NAME = "sottovoce-key";
/** Key of `localStorage` for the pinned key if the page was a demo's at its first visit. */
const DEMO_KEY_NAME = "sottovoce-demo-key";
const KEY_PATTERN = /^[0-9a-f]{64}$/u;
const LOOPBACK_HOST = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/u;

type Storage = Pick<globalThis.Storage, "getItem" | "setItem" | "removeItem">;

/** What the page says of its server. */
export interface Named {
  key: string;
  isDemo: boolean;
}

/** The key that this browser trusts. */
export interface Pin {
  key: string;
  /** Whether the page belongs to a demo that has replaced the demo of the trusted key. */
  isNewDemo: boolean;
}

export function isKey(text: string): boolean {
  return KEY_PATTERN.test(text);
}

/**
 * Return the key that this browser stored at its first visit. The page's key counts only at the
 * first visit.
 *
 * A demo has new keys with every start, so the key of a restarted demo differs for a harmless
 * reason. Every page can say that it is a demo, an attacker's too. This browser believes it only if
 * both of these hold, which nobody can fake for the visitors of a real service:
 *
 * - The host is a loopback address. Only a program on this machine can answer there.
 * - The pinned key was a demo's at the first visit. So a real service that somebody reaches through
 *   a tunnel to this machine raises the alert as everywhere.
 *
 * Even then nothing happens by itself: the page only says so in other words.
 */
export function pinKey(storage: Storage, named: Named, hostname: string): Pin {
  const pinned = storage.getItem(PINNED_KEY_NAME);
  if (pinned === null || !isKey(pinned)) {
    replaceKey(storage, named);
    return { key: named.key, isNewDemo: false };
  }
  const isDemoHere = named.isDemo && LOOPBACK_HOST.test(hostname);
  const wasDemo = storage.getItem(DEMO_KEY_NAME) === pinned;
  return { key: pinned, isNewDemo: isDemoHere && wasDemo && named.key !== pinned };
}

/** Trust the key of this page from now on. */
export function replaceKey(storage: Storage, { key, isDemo }: Named): void {
  storage.setItem(PINNED_KEY_NAME, key);
  if (isDemo) storage.setItem(DEMO_KEY_NAME, key);
  else storage.removeItem(DEMO_KEY_NAME);
}
