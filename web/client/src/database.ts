/** The client's IndexedDB database: its tables, their rows, and transactions. */

import type { Terms } from "./epoch.js";
import { SottovoceError, StoreError } from "./errors.js";
import type { Charge } from "./ledger.js";
import type { ReadableReport } from "./mechanism/base.js";
import type { Shelf } from "./shelf.js";
import type { Plan, Token } from "./timing.js";

/** Version of the tables. The browser does not open a database of a newer version. */
const SCHEMA_VERSION = 8;
/**
 * The only row of `settings`: the trusted server, the owner's choices, and the newest published
 * files.
 */
export interface Settings {
  only: 1;
  proxy: string;
  /** Verification key of the server in hexadecimal, as named at the first open. */
  key: string;
  /** The key that is trusted now: `key`, or the last of its successors. It never moves back. */
  trusted: string;
  /** Day of the first open, as YYYY-MM-DD. */
  since: string;
  /** Maximum epsilon that this device spends. */
  limit: number;
  /** Whether reporting is paused: no batch and no token request may leave. */
  paused: boolean;
  /** Terms that the owner accepted, or null. */
  terms: Terms | null;
  /** Terms of the last manifest that was fetched, accepted or not; null before the first. */
  asked: Terms | null;
  /** The last accepted manifest. It is public, and `forget` does not delete it. */
  newest: { epoch: number; hash: string } | null;
  /** The last accepted shelf. `forget` does not delete it. */
  shelf: Shelf | null;
  /**
   * Unix seconds at which the last batch was delivered, dropped or forgotten; 0 before the first.
   * `forget` does not delete it.
   */
  lastOver: number;
  /**
   * Random id that every `forget` replaces. A batch with another generation is not stored, because
   * its history was forgotten.
   */
  generation: string;
}

/** One item of the history. It has no time, only an order. */
export interface Touched {
  id: string;
  /**
   * Counter of the last time the item was recorded: equal for items recorded together, larger for
   * later ones.
   */
  moment: number;
}

/**
 * The only row of `history`: all touched items in the order of recording.
 *
 * Writing this row never takes long, so it delays no request by a time that the proxy could notice.
 */
export interface HistoryRow {
  only: 1;
  items: readonly Touched[];
}

/** A file: the signed manifest, named "manifest", or a model or catalogue, named by its hash. */
export interface FileRow {
  name: string;
  content: Uint8Array;
}

/**
 * The state of a batch: stored and charged, delivered to the proxy, or dropped without being
 * counted.
 */
export type BatchState = "charged" | "sent" | "dropped";

/** The batch of an epoch. The epoch is the key of the row, so an epoch has at most one batch. */
export interface BatchRow {
  epoch: number;
  state: BatchState;
  /** SHA-256 of the encoded batch in hexadecimal; its charge has the same `purpose`. */
  purpose: string;
  /** Unix seconds before which the batch is not sent, drawn before the history was read. */
  sendAt: number;
  /** Unix seconds at which the epoch is over. From then on the batch is not sent. */
  ends: number;
  /** Unix seconds before which the proxy does not want the batch. */
  notBefore: number;
  /** The encoded batch; null after it was delivered or dropped. */
  bytes: Uint8Array | null;
}

/** The only row of `shown`: the last batch in readable form, for the owner. */
export interface ShownRow {
  only: 1;
  epoch: number;
  bytes: Uint8Array;
  reports: readonly ReadableReport[];
  /**
   * A list with the title of the item that each report names, or null for a report that names none.
   * If reports do not name items, there is no list but null.
   */
  titles: readonly (string | null)[] | null;
  mechanism: string;
  epsilon: number;
  purpose: string;
}

/** Every object store and its rows. */
interface Schema {
  settings: Settings;
  history: HistoryRow;
  files: FileRow;
  batches: BatchRow;
  charges: Charge;
  /** Random decisions for an epoch, made before the history is read. */
  plans: Plan;
  /** Tokens: their random draws and the state of their requests. */
  tokens: Token;
  shown: ShownRow;
}

/** The name of an object store. */
export type TableName = keyof Schema;

/** An object store, with the type of its rows. */
export interface Rows<Row> {
  get(key: IDBValidKey): IDBRequest<Row | undefined>;
  getAll(): IDBRequest<Row[]>;
  getAllKeys(): IDBRequest<string[]>;
  index(name: string): Pick<Rows<Row>, "get">;
  /** Add a row. A row with the same key or the same unique index ends the transaction. */
  add(row: Row): void;
  put(row: Row): void;
  delete(key: IDBValidKey): void;
  clear(): void;
}

/** A transaction. Its writes need not be awaited one by one: `Database` awaits its end. */
export interface Transaction extends Omit<IDBTransaction, "objectStore"> {
  objectStore<Name extends TableName>(name: Name): Rows<Schema[Name]>;
}

/**
 * A function that runs inside a transaction. It must await only requests of this transaction: the
 * browser commits while it awaits anything else.
 */
export type Work<Result> = (transaction: Transaction) => Promise<Result>;

/**
 * A connection to the database. Every failure of the browser's storage is thrown as a `StoreError`.
 */
export class Database {
  private constructor(private readonly connection: IDBDatabase) {
    // A tab with a newer program, or an owner who deletes the data, must not wait for this tab.
    connection.onversionchange = () => connection.close();
  }

  static async open(name: string, factory: IDBFactory): Promise<Database> {
    try {
      return new Database(await openConnection(factory, name));
    } catch (error) {
      throw toStoreError(error);
    }
  }

  /**
   * Read from tables in one transaction, so that all results belong to one moment.
   *
   * `work` must make all requests at once, because the transaction is committed right after that.
   * So no writer waits until this thread, which may be computing, has read the answers.
   */
  read<Result>(tables: TableName[], work: Work<Result>): Promise<Result> {
    return this.#run(tables, "readonly", (transaction) => {
      const result = work(transaction);
      transaction.commit();
      return result;
    });
  }

  readAll<Name extends TableName>(name: Name): Promise<Schema[Name][]> {
    return this.read([name], (transaction) => awaitRequest(transaction.objectStore(name).getAll()));
  }

  /**
   * Run a writing transaction, all or nothing. When this resolves, the data is on disk, and no
   * other transaction wrote in between.
   */
  write<Result>(tables: TableName[], work: Work<Result>): Promise<Result> {
    return this.#run(tables, "readwrite", work);
  }

  close(): void {
    this.connection.close();
  }

  async #run<Result>(tables: TableName[], mode: IDBTransactionMode, work: Work<Result>) {
    try {
      const transaction = this.connection.transaction(tables, mode, { durability: "strict" });
      return await runToEnd(transaction as unknown as Transaction, work);
    } catch (error) {
      throw toStoreError(error);
    }
  }
}

/**
 * Run work in a transaction, and return its result after the browser has completed the transaction.
 */
async function runToEnd<Result>(transaction: Transaction, work: Work<Result>): Promise<Result> {
  const end = new Promise<void>((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error ?? new Error("it was given up"));
  });
  const cause = end.catch((reason: unknown) => reason);
  try {
    const result = await work(transaction);
    await end;
    return result;
  } catch (error) {
    try {
      transaction.abort();
    } catch {
      // The reported error has ended the transaction already.
    }
    // Pending requests report only that the transaction ended; the transaction itself has the
    // reason.
    const isEnd = error instanceof DOMException && error.name === "AbortError";
    throw (isEnd && (await cause)) || error;
  }
}

/** Return the result of a request. */
export function awaitRequest<Result>(request: IDBRequest<Result>): Promise<Result> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/**
 * Open the database, and create its tables if it is new.
 *
 * A database of an earlier version is refused and left unchanged. It contains the record of what
 * was spent, which must not be deleted without the owner's knowledge.
 */
async function openConnection(factory: IDBFactory, name: string): Promise<IDBDatabase> {
  const request = factory.open(name, SCHEMA_VERSION);
  let isEarlierVersion = false;
  request.onupgradeneeded = ({ oldVersion }) => {
    isEarlierVersion = oldVersion > 0;
    if (isEarlierVersion) request.transaction?.abort();
    else createTables(request.result);
  };
  try {
    return await awaitRequest(request);
  } catch (error) {
    throw isEarlierVersion ? new StoreError(EARLIER_VERSION) : error;
  }
}

const EARLIER_VERSION =
  "This browser holds data of an earlier version, which is not read. Nothing was changed. " +
  "Delete this site's data to start again; this deletes the record of what was spent.";

function createTables(database: IDBDatabase): void {
  database.createObjectStore("settings", { keyPath: "only" });
  database.createObjectStore("history", { keyPath: "only" });
  database.createObjectStore("files", { keyPath: "name" });
  database.createObjectStore("batches", { keyPath: "epoch" }).createIndex("state", "state");
  // The database itself refuses a second charge for an epoch.
  database
    .createObjectStore("charges", { keyPath: "purpose" })
    .createIndex("epoch", "epoch", UNIQUE_INDEX);
  database.createObjectStore("plans", { keyPath: "epoch" });
  database.createObjectStore("tokens", { keyPath: "epoch" });
  database.createObjectStore("shown", { keyPath: "only" });
}

const UNIQUE_INDEX = { unique: true };

function toStoreError(error: unknown): SottovoceError {
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
    `The browser's storage could not be used (${name || "error"}: ${message}). This step was not ` +
      "stored; a batch that was charged before may have left. Free some space or reload the page, " +
      "and try again.",
  );
}
