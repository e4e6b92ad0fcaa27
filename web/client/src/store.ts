/**
 * What a client remembers: the rows of its IndexedDB database, transactions that are whole or nothing and
 * on disk when they are over, and what is kept of its owner and of what was published. `outbox` has what
 * leaves.
 */

import { systemEntropy } from "./coin.js";
import { equal, fromHex, sha256, toHex } from "./encoding.js";
import { SottovoceError, StoreError, UntrustedError } from "./errors.js";
import type { Charge } from "./ledger.js";
import { openManifest, type SignedManifest } from "./manifest.js";
import type { Told } from "./mechanism/base.js";
import { MOST_TOUCHED } from "./model.js";
import { checkShelf, type Shelf } from "./shelf.js";
import type { Terms } from "./terms.js";
import type { Plan, Token } from "./timing.js";

/** Of the database's layout; the browser keeps it and refuses an older program a newer database. */
const VERSION = 7;
/** The name of the row with the signed manifest; the other files are named by their hashes. */
const MANIFEST = "manifest";
/** Random bytes that name a generation. */
const GENERATION = 16;

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

export type Beginning = Pick<Settings, "proxy" | "key" | "since" | "limit" | "paused">;

/** The client's memory. Nothing of it is kept in variables: another tab may have changed it. */
export class Store {
  constructor(private readonly database: Database) {}

  // Whom the owner trusts and what they chose.

  /** Begin, or take up where it was; another key or proxy than the pinned one is refused. */
  enrol(beginning: Beginning): Promise<void> {
    return this.database.write(["settings"], async (transaction) => {
      const known = await answer(transaction.objectStore("settings").get(1));
      if (known === undefined) {
        const generation = toHex(systemEntropy(GENERATION));
        const unknown = { trusted: beginning.key, terms: null, newest: null, shelf: null };
        const fresh: Settings = { only: 1, ...beginning, ...unknown, generation, lastOver: 0 };
        transaction.objectStore("settings").add(fresh);
      } else {
        checkPinned(known, beginning);
      }
    });
  }

  settings(): Promise<Settings> {
    return this.database.read(["settings"], settingsIn);
  }

  choose(choice: Partial<Pick<Settings, "limit" | "paused" | "terms">>): Promise<void> {
    return this.database.write(["settings"], async (transaction) => {
      await transaction
        .objectStore("settings")
        .put({ ...(await settingsIn(transaction)), ...choice });
    });
  }

  // What they touched.

  /** How many of them are new. All of them move to one moment, later than any before. */
  add(ids: readonly string[]): Promise<number> {
    return this.#change((known) => {
      const before = known.size;
      const moment = 1 + [...known.values()].reduce((one, other) => Math.max(one, other), 0);
      for (const id of ids) known.set(id, moment);
      return known.size - before;
    });
  }

  /** How many of them were there. */
  remove(ids: readonly string[]): Promise<number> {
    return this.#change((known) => [...new Set(ids)].filter((id) => known.delete(id)).length);
  }

  /** All of them, in the order of recording, each with its moment: a later one is larger. */
  async touched(): Promise<Map<string, number>> {
    return byId(await this.database.read(["history"], touchedIn));
  }

  #change(work: (known: Map<string, number>) => number): Promise<number> {
    return this.database.write(["history"], async (transaction) => {
      const known = byId(await touchedIn(transaction));
      const count = work(known);
      const items = latest(Array.from(known, ([id, moment]) => ({ id, moment })));
      transaction.objectStore("history").put({ only: 1, items });
      return count;
    });
  }

  // What the server published.

  /** The last manifest accepted, its signature checked once more; null if there is none. */
  async signed(): Promise<SignedManifest | null> {
    const [settings, row] = await this.database.read(["settings", "files"], (transaction) =>
      Promise.all([
        settingsIn(transaction),
        answer(transaction.objectStore("files").get(MANIFEST)),
      ]),
    );
    return row === undefined ? null : openManifest(row.content, fromHex(settings.trusted));
  }

  /** The hashes of the files that are here. */
  fileNames(): Promise<string[]> {
    return this.database.read(["files"], (open) => answer(open.objectStore("files").getAllKeys()));
  }

  /** A model or catalogue; one that the disk has spoilt is as good as none. */
  async file(hash: Uint8Array): Promise<Uint8Array | null> {
    const name = toHex(hash);
    const row = await this.database.read(["files"], (open) =>
      answer(open.objectStore("files").get(name)),
    );
    return row !== undefined && equal(await sha256(row.content), hash) ? row.content : null;
  }

  /**
   * A manifest, a shelf and their files in the place of the last ones, in one step. `fresh` are those
   * that were not here. `check` refuses what must not be stored: it is asked again here, inside the
   * transaction, because another tab may have gone further in the meantime, or the owner may have
   * accepted other terms. The key that signed it is the trusted one from now on.
   */
  keepRelease(
    signed: SignedManifest,
    shelf: Shelf,
    fresh: ReadonlyMap<string, Uint8Array>,
    check: (settings: Settings) => void,
  ): Promise<void> {
    return this.database.write(["settings", "files"], async (transaction) => {
      const known = await settingsIn(transaction);
      check(known);
      const newest = { epoch: signed.manifest.epoch, hash: toHex(signed.hash) };
      await transaction
        .objectStore("settings")
        .put({ ...known, newest, shelf, trusted: toHex(signed.key) });
      await keepFiles(transaction, signed, shelf, new Map([...fresh, [MANIFEST, signed.raw]]));
    });
  }

  /** A shelf and its catalogue beside the last manifest, while worse terms wait for a yes. */
  keepShelf(
    last: SignedManifest,
    shelf: Shelf,
    fresh: ReadonlyMap<string, Uint8Array>,
  ): Promise<void> {
    return this.database.write(["settings", "files"], async (transaction) => {
      const known = await settingsIn(transaction);
      checkShelf(known.shelf, shelf);
      if (known.newest?.hash !== toHex(last.hash)) throw new StoreError(MEANWHILE);
      await transaction.objectStore("settings").put({ ...known, shelf });
      await keepFiles(transaction, last, shelf, fresh);
    });
  }

  /**
   * Everything about the owner, and all that could be worked out from it. The charges stay, because
   * what left cannot be called back, and they hold no item; so do what the owner chose, what the
   * coins said (else forgetting would be another toss), the newest epoch, and when the last batch left: no
   * token is asked for soon after it.
   */
  forget(now: number): Promise<void> {
    const tables = ["history", "files", "batches", "shown"] as const;
    return this.database.write([...tables, "settings"], async (transaction) => {
      const settings = await settingsIn(transaction);
      const generation = toHex(systemEntropy(GENERATION));
      // A batch that waits may have left: only the answer says so.
      const lastOver = (await waitingIn(transaction)) === undefined ? settings.lastOver : now;
      transaction.objectStore("settings").put({ ...settings, generation, lastOver });
      for (const table of tables) {
        transaction.objectStore(table).clear();
      }
    });
  }
}

/** These, and of those that are here what belongs to the manifest and the shelf; nothing else. */
async function keepFiles(
  transaction: Transaction,
  { manifest: { model, catalogue } }: SignedManifest,
  shelf: Shelf,
  fresh: ReadonlyMap<string, Uint8Array>,
): Promise<void> {
  const rows = transaction.objectStore("files");
  for (const [name, content] of fresh) rows.put({ name, content });
  const wanted = [MANIFEST, toHex(model), toHex(catalogue), shelf.catalogue];
  const names = await answer(rows.getAllKeys());
  if (!wanted.every((name) => names.includes(name))) throw new StoreError(MEANWHILE);
  for (const name of names) {
    if (!wanted.includes(name)) rows.delete(name);
  }
}

const MEANWHILE = "What was fetched was forgotten in the meantime; fetch it again.";

/** The settings, inside a transaction. */
export async function settingsIn(transaction: Transaction): Promise<Settings> {
  const settings = await answer(transaction.objectStore("settings").get(1));
  if (settings === undefined) {
    throw new StoreError("This browser's data was deleted while it was in use. Reload the page.");
  }
  return settings;
}

/** The batch that has neither arrived nor been given up, inside a transaction. */
export function waitingIn(transaction: Transaction): Promise<BatchRow | undefined> {
  return answer(transaction.objectStore("batches").index("state").get("charged"));
}

async function touchedIn(transaction: Transaction): Promise<readonly Touched[]> {
  return (await answer(transaction.objectStore("history").get(1)))?.items ?? [];
}

function byId(items: readonly Touched[]): Map<string, number> {
  return new Map(items.map(({ id, moment }) => [id, moment]));
}

/** A history is never longer than `MOST_TOUCHED`: what was touched earliest goes, of one moment the last names. */
function latest(items: readonly Touched[]): readonly Touched[] {
  if (items.length <= MOST_TOUCHED) return items;
  const order = [...items].sort((a, b) => b.moment - a.moment || (a.id < b.id ? -1 : 1));
  const kept = new Set(order.slice(0, MOST_TOUCHED));
  return items.filter((item) => kept.has(item));
}

function checkPinned(known: Settings, named: Beginning): void {
  if (known.key !== named.key) {
    throw new UntrustedError(
      "This address now names another key than the one this browser has trusted since " +
        `${known.since}. Somebody may be pretending to be the server you know, so nothing was ` +
        "fetched and nothing was sent. If you know that the key was changed for a good reason, " +
        "delete this site's data in your browser and begin anew; the record of what was spent goes " +
        "with it.",
    );
  }
  if (known.proxy !== named.proxy) {
    throw new UntrustedError(
      `This browser's data belongs to the proxy ${known.proxy}, but now ${named.proxy} is named. ` +
        "Nothing was fetched and nothing was sent. Go back to the first address, or delete this " +
        "site's data in your browser and begin anew.",
    );
  }
}
