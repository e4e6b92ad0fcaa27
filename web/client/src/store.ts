/**
 * The stored data of a client: the choices of the owner, the history, and published files. Batches
 * and charges are in `outbox`.
 */

import { MAX_HISTORY_ITEMS } from "./bounds.js";
import { fromHex, hashSha256, isEqual, toHex } from "./bytes.js";
import { drawSystemEntropy } from "./coin.js";
import {
  awaitRequest,
  type BatchRow,
  type Database,
  type Settings,
  type TableName,
  type Touched,
  type Transaction,
} from "./database.js";
import type { Manifest, SignedManifest } from "./epoch.js";
import { StoreError, UntrustedError } from "./errors.js";
import { openManifest } from "./manifest.js";
import { checkShelf, type Shelf } from "./shelf.js";

/**
 * Name of the file row that contains the signed manifest. All other files are named by their
 * hashes.
 */
const MANIFEST_NAME = "manifest";
/** Size of the random id of a generation. */
const GENERATION_BYTES = 16;

/** The settings with which an application opens a client. */
export type InitialSettings = Pick<Settings, "proxy" | "key" | "since" | "limit" | "paused">;

/**
 * Reads and writes the stored data. No data is cached in variables, because another tab may change
 * it.
 */
export class Store {
  constructor(private readonly database: Database) {}

  /**
   * Store the settings of the first open. At later opens, throw an `UntrustedError` if the key or
   * the proxy differs.
   */
  initialize(initial: InitialSettings): Promise<void> {
    return this.database.write(["settings"], async (transaction) => {
      const stored = await awaitRequest(transaction.objectStore("settings").get(1));
      if (stored === undefined) {
        const generation = toHex(drawSystemEntropy(GENERATION_BYTES));
        const undecided = {
          trusted: initial.key,
          terms: null,
          asked: null,
          newest: null,
          shelf: null,
        };
        const fresh: Settings = { only: 1, ...initial, ...undecided, generation, lastOver: 0 };
        transaction.objectStore("settings").add(fresh);
      } else {
        checkPinned(stored, initial);
      }
    });
  }

  readSettings(): Promise<Settings> {
    return this.database.read(["settings"], readSettingsIn);
  }

  /**
   * Change settings in one transaction. `change` receives the current settings, and may throw to
   * refuse.
   */
  updateSettings(change: (settings: Settings) => Partial<Settings>): Promise<void> {
    return this.database.write(["settings"], async (transaction) => {
      const settings = await readSettingsIn(transaction);
      transaction.objectStore("settings").put({ ...settings, ...change(settings) });
    });
  }

  /**
   * Add items to the history, and return how many of them were new.
   *
   * All of them get the same moment: a later one than all others or, if they are not ordered, the
   * latest that there is.
   */
  addItems(ids: readonly string[], isOrdered: boolean): Promise<number> {
    return this.#change((history) => {
      const before = history.size;
      const latest = [...history.values()].reduce((one, other) => Math.max(one, other), 0);
      const moment = isOrdered ? latest + 1 : latest || 1;
      for (const id of ids) history.set(id, moment);
      return history.size - before;
    });
  }

  /** Remove items from the history. Return how many of them were in it. */
  removeItems(ids: readonly string[]): Promise<number> {
    return this.#change((history) => [...new Set(ids)].filter((id) => history.delete(id)).length);
  }

  /**
   * Return the history in the order of recording: the moment of each item id. Later moments are
   * larger.
   */
  async readHistory(): Promise<Map<string, number>> {
    return toMomentsById(await this.database.read(["history"], readHistoryRows));
  }

  #change(work: (history: Map<string, number>) => number): Promise<number> {
    return this.database.write(["history"], async (transaction) => {
      const history = toMomentsById(await readHistoryRows(transaction));
      const count = work(history);
      const items = limitHistory(Array.from(history, ([id, moment]) => ({ id, moment })));
      transaction.objectStore("history").put({ only: 1, items });
      return count;
    });
  }

  /** Return the last accepted manifest; null if there is none. Its signature is checked again. */
  async readManifest(): Promise<SignedManifest | null> {
    const [settings, row] = await this.database.read(["settings", "files"], (transaction) =>
      Promise.all([
        readSettingsIn(transaction),
        awaitRequest(transaction.objectStore("files").get(MANIFEST_NAME)),
      ]),
    );
    return row === undefined ? null : openManifest(row.content, fromHex(settings.trusted));
  }

  /** Return the hashes of the stored files. */
  listFiles(): Promise<string[]> {
    return this.database.read(["files"], (transaction) =>
      awaitRequest(transaction.objectStore("files").getAllKeys()),
    );
  }

  /** Return the file with this hash, or null if it is missing or damaged. */
  async readFile(hash: Uint8Array): Promise<Uint8Array | null> {
    const name = toHex(hash);
    const row = await this.database.read(["files"], (transaction) =>
      awaitRequest(transaction.objectStore("files").get(name)),
    );
    return row !== undefined && isEqual(await hashSha256(row.content), hash) ? row.content : null;
  }

  /**
   * Replace the manifest, the shelf and their files in one transaction.
   *
   * `fresh` contains the files that are not stored yet. `check` runs again inside the transaction,
   * because another tab may have stored a later release meanwhile, or the owner may have accepted
   * other terms. The key that signed the manifest becomes the trusted key.
   */
  storeRelease(
    signed: SignedManifest,
    shelf: Shelf,
    fresh: ReadonlyMap<string, Uint8Array>,
    check: (settings: Settings) => void,
  ): Promise<void> {
    return this.database.write(["settings", "files"], async (transaction) => {
      const settings = await readSettingsIn(transaction);
      check(settings);
      const newest = { epoch: signed.manifest.epoch, hash: toHex(signed.hash) };
      const asked = signed.manifest.terms;
      await transaction
        .objectStore("settings")
        .put({ ...settings, newest, shelf, trusted: toHex(signed.key), asked });
      await storeFiles(
        transaction,
        signed,
        shelf,
        new Map([...fresh, [MANIFEST_NAME, signed.raw]]),
      );
    });
  }

  /**
   * Store terms that the owner has not accepted yet, unless another tab has stored a later manifest
   * meanwhile.
   */
  noteAsked({ epoch, terms: asked }: Manifest): Promise<void> {
    return this.updateSettings(({ newest }) =>
      newest !== null && newest.epoch > epoch ? {} : { asked },
    );
  }

  /**
   * Store a shelf and its catalogue without a new manifest, while worse terms wait for the owner's
   * answer.
   */
  storeShelf(
    last: SignedManifest,
    shelf: Shelf,
    fresh: ReadonlyMap<string, Uint8Array>,
  ): Promise<void> {
    return this.database.write(["settings", "files"], async (transaction) => {
      const settings = await readSettingsIn(transaction);
      checkShelf(settings.shelf, shelf);
      if (settings.newest?.hash !== toHex(last.hash)) throw new StoreError(DELETED_MEANWHILE);
      await transaction.objectStore("settings").put({ ...settings, shelf });
      await storeFiles(transaction, last, shelf, fresh);
    });
  }

  /**
   * Withdraw the consent, and delete all batches, so that no later choice can send a waiting batch.
   * The charges stay, because a waiting batch may have been sent already. `now` is in Unix seconds.
   */
  withdraw(now: number): Promise<void> {
    return this.#clear(["batches", "shown"], { terms: null, limit: 0, paused: true }, now);
  }

  /**
   * Delete the history, and all data that depends on it or could show which items it contained.
   *
   * The charges stay, because reports that were sent cannot be undone; charges name no items. The
   * owner's choices and the newest epoch stay too. The random draws stay, because otherwise
   * forgetting would allow new draws. The time at which the last batch ended stays, because no
   * token may be requested soon after it. `now` is in Unix seconds.
   */
  forget(now: number): Promise<void> {
    const generation = toHex(drawSystemEntropy(GENERATION_BYTES));
    return this.#clear(["history", "files", "batches", "shown"], { generation }, now);
  }

  /** Delete all rows of these tables, which include the batches, and change settings. */
  #clear(tables: readonly TableName[], change: Partial<Settings>, now: number): Promise<void> {
    return this.database.write([...tables, "settings"], async (transaction) => {
      const settings = await readSettingsIn(transaction);
      // A waiting batch may have been sent already: only the proxy's answer would tell.
      const waiting = await readWaitingBatchIn(transaction);
      const lastOver = waiting === undefined ? settings.lastOver : now;
      transaction.objectStore("settings").put({ ...settings, ...change, lastOver });
      for (const table of tables) transaction.objectStore(table).clear();
    });
  }
}

/**
 * Store the fresh files, and delete all files that belong to neither the manifest nor the shelf.
 */
async function storeFiles(
  transaction: Transaction,
  { manifest: { model, catalogue } }: SignedManifest,
  shelf: Shelf,
  fresh: ReadonlyMap<string, Uint8Array>,
): Promise<void> {
  const rows = transaction.objectStore("files");
  for (const [name, content] of fresh) rows.put({ name, content });
  const wanted = [MANIFEST_NAME, toHex(model), toHex(catalogue), shelf.catalogue];
  const names = await awaitRequest(rows.getAllKeys());
  if (!wanted.every((name) => names.includes(name))) throw new StoreError(DELETED_MEANWHILE);
  for (const name of names) {
    if (!wanted.includes(name)) rows.delete(name);
  }
}

const DELETED_MEANWHILE = "the fetched files were deleted meanwhile; fetch them again";

/** Read the settings inside a transaction. */
export async function readSettingsIn(transaction: Transaction): Promise<Settings> {
  const settings = await awaitRequest(transaction.objectStore("settings").get(1));
  if (settings === undefined) {
    throw new StoreError("This browser's data was deleted while it was in use. Reload the page.");
  }
  return settings;
}

/** Read the batch that was neither delivered nor dropped, inside a transaction. */
export function readWaitingBatchIn(transaction: Transaction): Promise<BatchRow | undefined> {
  return awaitRequest(transaction.objectStore("batches").index("state").get("charged"));
}

async function readHistoryRows(transaction: Transaction): Promise<readonly Touched[]> {
  return (await awaitRequest(transaction.objectStore("history").get(1)))?.items ?? [];
}

function toMomentsById(items: readonly Touched[]): Map<string, number> {
  return new Map(items.map(({ id, moment }) => [id, moment]));
}

/**
 * Keep the `MAX_HISTORY_ITEMS` items with the latest moments. Of items with equal moments, those
 * whose ids come first in their order are kept.
 */
function limitHistory(items: readonly Touched[]): readonly Touched[] {
  if (items.length <= MAX_HISTORY_ITEMS) return items;
  const order = [...items].sort((a, b) => b.moment - a.moment || (a.id < b.id ? -1 : 1));
  const latestItems = new Set(order.slice(0, MAX_HISTORY_ITEMS));
  return items.filter((item) => latestItems.has(item));
}

function checkPinned(stored: Settings, initial: InitialSettings): void {
  if (stored.key !== initial.key) {
    throw new UntrustedError(
      "This address now names another key than the one this browser has trusted since " +
        `${stored.since}. Somebody may be pretending to be the server you know, so the client was ` +
        "not opened. If the key was changed for a good reason, delete this site's data to start " +
        "again; this deletes the record of what was spent.",
    );
  }
  if (stored.proxy !== initial.proxy) {
    throw new UntrustedError(
      `This browser's data belongs to the proxy ${stored.proxy}, but now ${initial.proxy} is named. ` +
        "The client was not opened. Go back to the first address, or delete this site's data to " +
        "start again.",
    );
  }
}
