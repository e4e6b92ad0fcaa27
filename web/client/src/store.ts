/**
 * What a client remembers: the rows of its IndexedDB database, transactions that are whole or nothing and
 * on disk when they are over, and what is kept of its owner and of what was published. `outbox` has what
 * leaves.
 */

import { equal, fromHex, sha256, toHex } from "./bytes.js";
import { systemEntropy } from "./coin.js";
import {
  answer,
  type BatchRow,
  type Database,
  type Settings,
  type Touched,
  type Transaction,
} from "./database.js";
import type { SignedManifest } from "./epoch.js";
import { StoreError, UntrustedError } from "./errors.js";
import { openManifest } from "./manifest.js";
import { MOST_TOUCHED } from "./model.js";
import { checkShelf, type Shelf } from "./shelf.js";

/** The name of the row with the signed manifest; the other files are named by their hashes. */
const MANIFEST = "manifest";
/** Random bytes that name a generation. */
const GENERATION = 16;

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
