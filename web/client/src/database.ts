/** The client's IndexedDB database: its tables, their rows, and transactions. */

import type { Terms } from "./epoch.js";
import { SottovoceError, StoreError } from "./errors.js";
import type { Charge } from "./ledger.js";
import type { ReadableReport } from "./mechanism/base.js";
import type { Shelf } from "./shelf.js";
import type { Plan, Token } from "./timing.js";

/** Version of the layout; the browser refuses an older program a newer database. */
const SCHEMA_VERSION = 8;
/**
 * The trusted server, the owner's choices, and the newest files seen: the one row of `settings`.
 */
export interface Settings {
  only: 1;
  proxy: string;
  /** Verification key of the server in hexadecimal, pinned at the first open. */
  key: string;
  /** The pinned key, or the last successor that it has led to; it never moves back. */
  trusted: string;
  /** Day of the first open, as YYYY-MM-DD. */
  since: string;
  /** The most epsilon that this device spends. */
  limit: number;
  /** Whether nothing may leave. */
  paused: boolean;
  /** Terms that the owner accepted, or null. */
  terms: Terms | null;
  /** Terms of the last manifest seen, accepted or not; null before the first. */
  asked: Terms | null;
  /** The last manifest accepted; it is public and survives `forget`. */
  newest: { epoch: number; hash: string } | null;
  /** The last shelf accepted; it survives `forget` too. */
  shelf: Shelf | null;
  /**
   * Unix seconds at which the last batch arrived, was dropped or forgotten; 0 before. Survives
   * `forget`.
   */
  lastOver: number;
  /** Random, and replaced by every `forget`: a batch of a forgotten history is not stored. */
  generation: string;
}

/** One item that the owner touched, without a time. */
export interface Touched {
  id: string;
  /** Counter of the last touch: equal for items recorded together, larger for later ones. */
  moment: number;
}

/**
 * What the owner touched, in the order of recording: the one row of `history`.
 *
 * Writing it never takes long, so nothing that the network could notice waits for it.
 */
export interface HistoryRow {
  only: 1;
  items: readonly Touched[];
}

/** The signed manifest (under that name), or a model or catalogue under its hash. */
export interface FileRow {
  name: string;
  content: Uint8Array;
}

/** The state of a batch. It is stored and charged in one transaction. */
export type BatchState = "charged" | "sent" | "dropped";

/** The batch of an epoch. There is at most one, ever: the epoch is the row's key. */
export interface BatchRow {
  epoch: number;
  state: BatchState;
  /** SHA-256 of the encoded batch in hexadecimal; its charge has the same name. */
  purpose: string;
  /** Unix seconds before which it does not leave, drawn before the history was read. */
  sendAt: number;
  /** Unix seconds from which it is of no use. */
  ends: number;
  /** Unix seconds before which the proxy does not want it. */
  notBefore: number;
  /** The encoded batch, until it was delivered or dropped. */
  bytes: Uint8Array | null;
}

/** The last batch in readable form, for its owner: the one row of `shown`. */
export interface ShownRow {
  only: 1;
  epoch: number;
  bytes: Uint8Array;
  reports: readonly ReadableReport[];
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
  /** Random draws of an epoch, made before any history is read. */
  plans: Plan;
  /** Random draws about the token of an epoch, and what became of it. */
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

/** What a piece of work may use. Its writes need not be awaited: the transaction's end is. */
export interface Transaction extends Omit<IDBTransaction, "objectStore"> {
  objectStore<Name extends TableName>(name: Name): Rows<Schema[Name]>;
}

/**
 * Work inside a transaction. It must await only requests of that transaction: while it awaits
 * anything else, the browser commits.
 */
export type Work<Result> = (transaction: Transaction) => Promise<Result>;

/** One connection. Every failure of the browser's storage becomes a `StoreError`. */
export class Database {
  private constructor(private readonly connection: IDBDatabase) {
    // A tab with a newer program, or an owner who deletes the data, must not wait for this one.
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
   * Read a view of one moment.
   *
   * All requests must be made at once: the transaction is committed then, and no writer waits until
   * this thread, which may be computing, has read the answers.
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
   * Write all or nothing. When it returns, the data is on disk, and no other writer came between.
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

/** Return the result of the work when the browser says that the transaction is complete. */
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
      // The reported error has ended it already.
    }
    // Pending requests say only that it ended; the transaction has the reason.
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
 * Open the database, and create it if it is new.
 *
 * An earlier layout is refused and left unchanged: it has the record of what was spent, which must
 * not disappear without its owner's knowledge.
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
  "This browser holds data of an earlier version, which is not read any more. Nothing was changed. " +
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
