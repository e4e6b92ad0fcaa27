/**
 * Records what this browser has spent with the servers that this address named earlier.
 *
 * Each server has a database with a ledger of its own, so the figures for one server do not include
 * what was spent with others. The page states that sum separately.
 */

/** Key of `localStorage` for the spent epsilon by verification key of the server. */
const SPENDING_NAME = "sottovoce-spending";

type Storage = Pick<globalThis.Storage, "getItem" | "setItem">;

/** Record the epsilon that was spent with a server, before this browser begins with another one. */
export function noteSpending(storage: Storage, key: string, spentEpsilon: number): void {
  storage.setItem(SPENDING_NAME, JSON.stringify({ ...readSpending(storage), [key]: spentEpsilon }));
}

/** Return the epsilon that was spent with all servers except the one with this key. */
export function sumEarlierSpending(storage: Storage, key: string): number {
  const { [key]: _, ...others } = readSpending(storage);
  return Object.values(others).reduce((sum, epsilon) => sum + epsilon, 0);
}

function readSpending(storage: Storage): Record<string, number> {
  return JSON.parse(storage.getItem(SPENDING_NAME) ?? "{}");
}
