/** One sync at a time in a browser, where the browser can see to it. */

export type Lock = <Result>(work: () => Promise<Result>) => Promise<Result>;

/**
 * Waits until no other tab syncs. It spares the proxy a second copy and the device some work; that a
 * batch is made and charged once rests on `Outbox.keep`, with or without a lock.
 */
export function alone(
  name: string,
  locks: Pick<LockManager, "request"> | null = globalThis.navigator?.locks ?? null,
): Lock {
  return (work) => (locks === null ? work() : locks.request(`sottovoce ${name}`, work));
}
