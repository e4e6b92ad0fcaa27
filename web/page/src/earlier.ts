/**
 * What this browser has spent with the servers that this address named earlier.
 *
 * Each server has a database of its own, with its own ledger: the figures of one do not count the
 * others. So the page says what they omit.
 */

/** Key under which this browser stores, by the servers' keys, what was spent when it left them. */
const SPENDING_NAME = "sottovoce-spending";

type Storage = Pick<globalThis.Storage, "getItem" | "setItem">;

/** Note what was spent with a server, before this browser begins with another. */
export function noteSpending(storage: Storage, key: string, spentEpsilon: number): void {
  storage.setItem(SPENDING_NAME, JSON.stringify({ ...readSpending(storage), [key]: spentEpsilon }));
}

/** Return what was spent with all servers but one. */
export function sumEarlierSpending(storage: Storage, key: string): number {
  const { [key]: _, ...others } = readSpending(storage);
  return Object.values(others).reduce((sum, epsilon) => sum + epsilon, 0);
}

function readSpending(storage: Storage): Record<string, number> {
  return JSON.parse(storage.getItem(SPENDING_NAME) ?? "{}");
}
