/** Of the database's layout; the browser keeps it and refuses an older program a newer database. */

import type { Terms } from "./epoch.js";
import { SottovoceError, StoreError } from "./errors.js";
import type { Charge } from "./ledger.js";
import type { Told } from "./mechanism/base.js";
import type { Shelf } from "./shelf.js";
import type { Plan, Token } from "./timing.js";

const VERSION = 7;
/** Whom the owner trusts, what they chose, and how far they have seen: the one row of `settings`. */
export interface Settings {
  only: 1;
  proxy: string;
  /** The server's verification key, in hexadecimal: pinned at the first open. */
  key: string;
  /** That key, or the last one that it has led to: moves forward with a release, and never back. */
  trusted: string;
  /** The day of that first open, as YYYY-MM-DD. */
  since: string;
  /** The most epsilon that this device spends. */
  limit: number;
  /** Whether nothing is to leave. */
  paused: boolean;
  /** What they accepted; null before. */
  terms: Terms | null;
  /** The last manifest accepted; it is public and survives `forget`. */
  newest: { epoch: number; hash: string } | null;
  /** The last shelf accepted; as the manifest. */
  shelf: Shelf | null;
  /** When the last batch arrived, was given up or forgotten (Unix seconds); 0 before. Survives `forget`. */
  lastOver: number;
  /** Random, and another one after every `forget`: a batch of what was forgotten is not kept. */
  generation: string;
}

/** One thing that the owner touched, and no time. */
export interface Touched {
  id: string;
  /** When it was touched last, counted: the same for what was recorded together, a later one larger. */
  moment: number;
}

/**
 * What the owner touched, in the order of recording: the one row of `history`. Writing it never takes
 * long, so that nothing that the network could notice has to wait for it.
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

/** What became of a batch. It is stored and charged in one transaction. */
export type State = "charged" | "sent" | "dropped";

/** The batch of an epoch. There is one at most, ever: the epoch is the row's key. */
export interface BatchRow {
  epoch: number;
  state: State;
  /** SHA-256 of the encoded batch, in hexadecimal; its charge has the same name. */
  purpose: string;
  /** Not before this moment (Unix seconds): drawn before the history was read. */
  sendAt: number;
  /** From this second on it is of no use. */
  ends: number;
  /** The proxy asked not to be sent it before (Unix seconds). */
  notBefore: number;
  /** The encoded batch, until it has arrived or was given up. */
  bytes: Uint8Array | null;
}

/** The last batch in readable form, for its owner's eyes: the one row of `shown`. */
export interface ShownRow {
  only: 1;
  epoch: number;
  bytes: Uint8Array;
  told: readonly Told[];
  mechanism: string;
  epsilon: number;
  purpose: string;
}

/** Every object store and what it holds. */
interface Schema {
  settings: Settings;
  history: HistoryRow;
  files: FileRow;
  batches: BatchRow;
  charges: Charge;
  /** What the device's own coins said of an epoch, before any history was read. */
  plans: Plan;
  /** The same of its token, and what became of that. */
  tokens: Token;
  shown: ShownRow;
}

export type Table = keyof Schema;

/** An object store, with the type of its rows. */
export interface Rows<Row> {
  get(key: IDBValidKey): IDBRequest<Row | undefined>;
  getAll(): IDBRequest<Row[]>;
  getAllKeys(): IDBRequest<string[]>;
  index(name: string): Pick<Rows<Row>, "get">;
  /** A new row; one that is there already under its key or a unique index ends the transaction. */
  add(row: Row): void;
  put(row: Row): void;
  delete(key: IDBValidKey): void;
  clear(): void;
}

/** What a piece of work may touch. What it writes need not be awaited: the transaction's end is. */
export interface Transaction extends Omit<IDBTransaction, "objectStore"> {
  objectStore<Name extends Table>(name: Name): Rows<Schema[Name]>;
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
  read<Result>(tables: Table[], work: Work<Result>): Promise<Result> {
    return this.#run(tables, "readonly", (transaction) => {
      const result = work(transaction);
      transaction.commit();
      return result;
    });
  }

  all<Name extends Table>(name: Name): Promise<Schema[Name][]> {
    return this.read([name], (transaction) => answer(transaction.objectStore(name).getAll()));
  }

  /** All of it or nothing; on disk when it is over, and no other writer in between. */
  write<Result>(tables: Table[], work: Work<Result>): Promise<Result> {
    return this.#run(tables, "readwrite", work);
  }

  close(): void {
    this.connection.close();
  }

  async #run<Result>(tables: Table[], mode: IDBTransactionMode, work: Work<Result>) {
    try {
      const begun = this.connection.transaction(tables, mode, { durability: "strict" });
      return await finished(begun as unknown as Transaction, work);
    } catch (error) {
      throw storeError(error);
    }
  }
}

/** The result of the work, but not before the browser says that the transaction is complete. */
async function finished<Result>(transaction: Transaction, work: Work<Result>): Promise<Result> {
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
      // It was over already, by the very error that is being reported.
    }
    // Requests that were under way say only that it ended; the transaction knows why.
    const isEnd = error instanceof DOMException && error.name === "AbortError";
    throw (isEnd && (await cause)) || error;
  }
}

/** What a request is answered with. */
export function answer<Result>(request: IDBRequest<Result>): Promise<Result> {
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
  database.createObjectStore("tokens", { keyPath: "epoch" });
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
