/**
 * The batch to send, its charge, and its readable copy.
 *
 * A batch is charged before it is sent, sealed once, and resent byte for byte; each epoch has at
 * most one. All of that rests on `keep`, the only transaction that stores a batch or a charge.
 */

import {
  awaitRequest,
  type BatchRow,
  type BatchState,
  type Database,
  type Rows,
  type Settings,
  type ShownRow,
  type TableName,
  type Transaction,
} from "./database.js";
import { type Charge, decide } from "./ledger.js";
import { readSettingsIn, readWaitingBatchIn } from "./store.js";
import type { Plan, Token } from "./timing.js";

/** A batch, its charge, its readable copy, and the generation of its history. Not stored yet. */
export interface MadeBatch {
  batch: BatchRow;
  charge: Charge;
  shown: ShownRow;
  /** Generation that the settings had before the history was read. */
  generation: string;
}

/** Everything that decides whether an epoch may have a batch, at one moment. */
export interface EpochState {
  settings: Settings;
  /** Batch of the epoch, if it ever had one. */
  batch: BatchRow | undefined;
  charges: readonly Charge[];
  /** Token for a batch of the epoch, if one was ever drawn. */
  token: Token | undefined;
  /** Batch of any epoch that was neither delivered nor dropped; there is at most one. */
  waiting: BatchRow | undefined;
}

/** The two final states of a batch. */
export type FinalState = Exclude<BatchState, "charged">;

/** A batch that may be sent. */
export type SendableBatch = BatchRow & { bytes: Uint8Array };

/** The last batch, for its owner to read. */
export interface LeftDevice extends Omit<ShownRow, "only" | "purpose"> {
  state: BatchState;
  /** SHA-256 of the bytes in hexadecimal: its name in the ledger. */
  hash: string;
}

/** Tables that `EpochState` is read from. */
const STATE_TABLES: TableName[] = ["settings", "batches", "charges", "tokens"];

/** Draws a row; its probability depends on the charges so far. */
type Draw<Row> = (charges: readonly Charge[]) => Row;

/** The batches, charges and random draws of a device. */
export class Outbox {
  constructor(private readonly database: Database) {}

  /** Return the state of an epoch, from public data and the ledger, never from the history. */
  readState(epoch: number): Promise<EpochState> {
    return this.database.read(STATE_TABLES, (transaction) => readStateIn(transaction, epoch));
  }

  /**
   * Store a batch and its charge, or neither, and return whether they were stored.
   *
   * The batch may leave when this has returned true, not before. One transaction checks and writes,
   * and the browser runs one writer at a time. So whatever two tabs do, and wherever a crash
   * happens, an epoch has both a batch and its charge, or neither: there is never a second batch,
   * nor one that was sent and not paid for. `isAllowed` sees the state inside the transaction: a
   * pause, a charge or a batch that came while this one was sealed refuses it. So does another
   * generation: the owner has forgotten everything meanwhile.
   *
   * Sealing awaits other promises than the database's, so it must happen before. A batch that is
   * not stored is thrown away, and that is sound: no byte of it was stored or sent, so nobody
   * learns its random draws and nothing was spent. It also favours no report over another, since
   * the decision does not depend on those draws.
   */
  keep(sealed: MadeBatch, isAllowed: (state: EpochState) => boolean): Promise<boolean> {
    return this.database.write([...STATE_TABLES, "shown"], async (transaction) => {
      const state = await readStateIn(transaction, sealed.batch.epoch);
      const isCurrent = state.settings.generation === sealed.generation;
      const { limit } = state.settings;
      const isPaid = decide(limit, state.charges, sealed.charge) === "charged";
      if (!isAllowed(state) || !isCurrent || !isPaid) {
        return false;
      }
      transaction.objectStore("charges").add(sealed.charge);
      transaction.objectStore("batches").add(sealed.batch);
      transaction.objectStore("shown").put(sealed.shown);
      return true;
    });
  }

  /** Return the plan of an epoch; it is drawn once, and a restart draws no other one. */
  drawPlan(epoch: number, draw: Draw<Plan>): Promise<Plan> {
    return this.#drawOnce("plans", epoch, epoch, draw);
  }

  /** Return the token of an epoch, which is drawn in the epoch before. */
  drawToken(epoch: number, draw: Draw<Token>): Promise<Token> {
    return this.#drawOnce("tokens", epoch, epoch - 1, draw);
  }

  /** Return the row of an epoch, drawn at the first call; rows older than `oldest` are deleted. */
  #drawOnce<Row extends Plan | Token>(
    table: "plans" | "tokens",
    epoch: number,
    oldest: number,
    draw: Draw<Row>,
  ): Promise<Row> {
    return this.database.write([table, "charges"], async (transaction) => {
      const rows = transaction.objectStore(table) as unknown as Rows<Row>;
      const row = await awaitRequest(rows.get(epoch));
      if (row !== undefined) {
        return row;
      }
      const fresh = draw(await awaitRequest(transaction.objectStore("charges").getAll()));
      for (const { epoch: old } of await awaitRequest(rows.getAll())) {
        if (old < oldest) rows.delete(old);
      }
      rows.add(fresh);
      return fresh;
    });
  }

  listTokens(): Promise<Token[]> {
    return this.database.readAll("tokens");
  }

  /** Update what is known of a token, and return it. The first stored state stays. */
  updateToken(epoch: number, news: Partial<Token>): Promise<Token | undefined> {
    return this.database.write(["tokens"], async (transaction) => {
      const rows = transaction.objectStore("tokens");
      const row = await awaitRequest(rows.get(epoch));
      const next = row && { ...row, ...news, state: row.state ?? news.state ?? null };
      if (next !== undefined) rows.put(next);
      return next;
    });
  }

  /** Return the plan that was drawn last. */
  async readLastPlan(): Promise<Plan | null> {
    const plans = await this.database.readAll("plans");
    return plans.at(-1) ?? null;
  }

  readWaitingBatch(): Promise<BatchRow | undefined> {
    return this.database.read(["batches"], readWaitingBatchIn);
  }

  /** Mark a batch as delivered or dropped, delete its bytes, and return its final state. */
  finish(epoch: number, state: FinalState, now: number): Promise<FinalState> {
    return this.database.write(["batches", "settings"], async (transaction) => {
      const settings = await readSettingsIn(transaction);
      transaction.objectStore("settings").put({ ...settings, lastOver: now });
      const row = await awaitRequest(transaction.objectStore("batches").get(epoch));
      if (row === undefined) {
        return state; // its owner has forgotten it meanwhile
      }
      const end = row.state === "sent" ? "sent" : state; // another tab may have delivered it
      transaction.objectStore("batches").put({ ...row, state: end, bytes: null });
      return end;
    });
  }

  /** Store the time before which the proxy does not want the batch. */
  postpone(epoch: number, notBefore: number): Promise<void> {
    return this.database.write(["batches"], async (transaction) => {
      const row = await awaitRequest(transaction.objectStore("batches").get(epoch));
      if (row !== undefined) {
        transaction.objectStore("batches").put({ ...row, notBefore });
      }
    });
  }

  async countBatches(): Promise<Record<BatchState, number>> {
    const rows = await this.database.readAll("batches");
    const counts = { charged: 0, sent: 0, dropped: 0 };
    for (const row of rows) {
      counts[row.state] += 1;
    }
    return counts;
  }

  listCharges(): Promise<Charge[]> {
    return this.database.readAll("charges");
  }

  readLastBatch(): Promise<LeftDevice | null> {
    return this.database.read(["batches", "shown"], async (transaction) => {
      const requests = [
        awaitRequest(transaction.objectStore("shown").get(1)),
        awaitRequest(transaction.objectStore("batches").getAll()),
      ] as const;
      const [shown, batches] = await Promise.all(requests);
      const batch = batches.find(({ epoch }) => epoch === shown?.epoch);
      if (shown === undefined || batch === undefined) {
        return null;
      }
      const { only: _, purpose: hash, ...rest } = shown;
      return { ...rest, hash, state: batch.state };
    });
  }
}

async function readStateIn(transaction: Transaction, epoch: number): Promise<EpochState> {
  const [settings, batches, charges, token] = await Promise.all([
    readSettingsIn(transaction),
    awaitRequest(transaction.objectStore("batches").getAll()),
    awaitRequest(transaction.objectStore("charges").getAll()),
    awaitRequest(transaction.objectStore("tokens").get(epoch)),
  ]);
  const batch = batches.find((row) => row.epoch === epoch);
  const waiting = batches.find(({ state }) => state === "charged");
  return { settings, batch, charges, token, waiting };
}
