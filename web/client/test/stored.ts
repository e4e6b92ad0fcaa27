/** A browser's storage, looked at and changed from outside. */

import type { World } from "./world.js";

/** Everything in the database, as any program of this origin could read it. */
export async function dump(
  factory: IDBFactory,
  name = "sottovoce",
): Promise<Record<string, unknown[]>> {
  const database = await promised(factory.open(name));
  const names = [...database.objectStoreNames];
  const transaction = database.transaction(names, "readonly");
  const found: Record<string, unknown[]> = {};
  for (const store of names) {
    found[store] = await promised(transaction.objectStore(store).getAll());
  }
  database.close();
  return found;
}

/** Change a database behind a client's back. */
export async function meddle(
  factory: IDBFactory,
  store: string,
  work: (store: IDBObjectStore) => IDBRequest,
): Promise<void> {
  const database = await promised(factory.open("sottovoce"));
  await promised(work(database.transaction(store, "readwrite").objectStore(store)));
  database.close();
}

interface ChargeRow {
  training: string;
  epoch: number;
  purpose: string;
  epsilon: number;
  reports: number;
}

/** What the ledger says, in the order of epochs. */
export async function charges(world: World, name = "sottovoce"): Promise<ChargeRow[]> {
  const rows = (await dump(world.factory, name)).charges as ChargeRow[];
  return rows.sort((a, b) => a.epoch - b.epoch);
}

function promised<Result>(request: IDBRequest<Result>): Promise<Result> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
