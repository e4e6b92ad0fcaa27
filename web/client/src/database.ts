/**
 * The client's IndexedDB database: transactions that are whole or nothing, on disk when they are
 * over, and honest about what went wrong.
 */

import { SottovoceError, StoreError } from "./errors.js";
import type { Schema } from "./rows.js";

/** Of the database's layout; the browser keeps it and refuses an older program a newer database. */
const VERSION = 4;

type Table = keyof Schema;

/** The rows of one object store, inside a transaction. */
export class Rows<Row> {
  constructor(private readonly store: IDBObjectStore) {}

  get(key: IDBValidKey): Promise<Row | undefined> {
    return answer(this.store.get(key) as IDBRequest<Row | undefined>);
  }

  all(): Promise<Row[]> {
    return answer(this.store.getAll() as IDBRequest<Row[]>);
  }

  /** The rows that an index has under one key. */
  where(index: string, key: IDBValidKey): Promise<Row[]> {
    return answer(this.store.index(index).getAll(key) as IDBRequest<Row[]>);
  }

  keys(): Promise<IDBValidKey[]> {
    return answer(this.store.getAllKeys());
  }

  /** A new row; one that is there already under its key or a unique index ends the transaction. */
  async add(row: Row): Promise<void> {
    await answer(this.store.add(row));
  }

  async put(row: Row): Promise<void> {
    await answer(this.store.put(row));
  }

  async delete(key: IDBValidKey): Promise<void> {
    await answer(this.store.delete(key));
  }

  async clear(): Promise<void> {
    await answer(this.store.clear());
  }
}

/** What a piece of work may touch. */
export class Transaction {
  constructor(private readonly transaction: IDBTransaction) {}

  rows<Name extends Table>(name: Name): Rows<Schema[Name]> {
    return new Rows(this.transaction.objectStore(name));
  }

  /** There are no more requests. */
  commit(): void {
    this.transaction.commit();
  }
}

/**
 * Inside a transaction. It must await nothing but requests of that transaction: while anything else
 * is awaited, the browser commits what there is.
 */
export type Work<Result> = (transaction: Transaction) => Promise<Result>;

/** One connection. Every failure of the browser's storage becomes a `StoreError`. */
export class Database {
  private constructor(private readonly connection: IDBDatabase) {
    // Another tab with a newer program, or the owner who deletes the data, must not wait for us.
    connection.onversionchange = () => connection.close();
  }

  static async open(name: string, factory: IDBFactory): Promise<Database> {
    try {
      return new Database(await opened(factory, name));
    } catch (error) {
      throw storeError(error);
    }
  }

  /**
   * A view of one moment. All of its requests must be made at once: it is closed then, and nobody who
   * writes has to wait until this thread, which may be computing, has looked at the answers.
   */
  read<Result>(tables: readonly Table[], work: Work<Result>): Promise<Result> {
    return this.run(tables, "readonly", (transaction) => {
      const result = work(transaction);
      transaction.commit();
      return result;
    });
  }

  /** All of it or nothing; on disk when it is over, and no other writer in between. */
  write<Result>(tables: readonly Table[], work: Work<Result>): Promise<Result> {
    return this.run(tables, "readwrite", work);
  }

  close(): void {
    this.connection.close();
  }

  private async run<Result>(
    tables: readonly Table[],
    mode: IDBTransactionMode,
    work: Work<Result>,
  ): Promise<Result> {
    try {
      const transaction = this.connection.transaction(tables, mode, { durability: "strict" });
      return await finished(transaction, work);
    } catch (error) {
      throw storeError(error);
    }
  }
}

/** The result of the work, but not before the browser says that the transaction is complete. */
async function finished<Result>(transaction: IDBTransaction, work: Work<Result>): Promise<Result> {
  const end = completion(transaction);
  try {
    const result = await work(new Transaction(transaction));
    await end;
    return result;
  } catch (error) {
    abort(transaction);
    const cause = await end.catch((reason: unknown) => reason);
    // Requests that were under way say only that it ended; the transaction knows why.
    throw isAbort(error) && cause !== undefined ? cause : error;
  }
}

function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

function completion(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error ?? new Error("it was given up"));
  });
}

function abort(transaction: IDBTransaction): void {
  try {
    transaction.abort();
  } catch {
    // It was over already, by the very error that is being reported.
  }
}

function answer<Result>(request: IDBRequest<Result>): Promise<Result> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/**
 * One of an earlier layout is refused and left as it is: it holds what was spent, which must not be
 * forgotten without its owner knowing.
 */
async function opened(factory: IDBFactory, name: string): Promise<IDBDatabase> {
  const request = factory.open(name, VERSION);
  let earlier = false;
  request.onupgradeneeded = ({ oldVersion }) => {
    earlier = oldVersion > 0;
    if (earlier) request.transaction?.abort();
    else create(request.result);
  };
  try {
    return await answer(request);
  } catch (error) {
    throw earlier ? new StoreError(EARLIER) : error;
  }
}

const EARLIER =
  "This browser holds data of an earlier version, which is not read any more. Nothing was changed. " +
  "Delete this site's data to begin anew; the record of what was spent goes with it.";

function create(database: IDBDatabase): void {
  database.createObjectStore("settings", { keyPath: "only" });
  database.createObjectStore("history", { keyPath: "only" });
  database.createObjectStore("files", { keyPath: "name" });
  database.createObjectStore("batches", { keyPath: "epoch" }).createIndex("state", "state");
  // The last line of defence: the database itself refuses a second charge for an epoch.
  database
    .createObjectStore("charges", { keyPath: "purpose" })
    .createIndex("epoch", "epoch", UNIQUE);
  database.createObjectStore("plans", { keyPath: "epoch" });
  database.createObjectStore("shown", { keyPath: "only" });
}

const UNIQUE = { unique: true };

function storeError(error: unknown): SottovoceError {
  if (error instanceof SottovoceError) {
    return error;
  }
  const { name, message } = error instanceof Error ? error : { name: "", message: String(error) };
  if (name === "VersionError") {
    return new StoreError(
      "This browser holds data of a newer version of this program. Nothing was changed; reload " +
        "the page, or update the application.",
    );
  }
  return new StoreError(
    `The browser's storage could not be used (${name || "error"}: ${message}). Nothing was written ` +
      "and nothing was sent because of it. Free some space or reload the page, and try again.",
  );
}
