/**
 * Batches, their charges, and the readable copy of the last batch.
 *
 * A batch is charged before it is sent, sealed only once, and resent byte for byte. Each epoch has
 * at most one batch. `keep` guarantees this: it is the only transaction that adds a batch or a
 * charge.
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

/**
 * A batch that is not stored yet, with its charge, its readable copy, and the generation of its
 * history.
 */
export interface MadeBatch {
  batch: BatchRow;
  charge: Charge;
  shown: ShownRow;
  /** Generation in the settings, read before the history was read. */
  generation: string;
}

/** Everything that decides whether an epoch may have a batch, read in one transaction. */
export interface EpochState {
  settings: Settings;
  /** Batch of the epoch, if it ever had one. */
  batch: BatchRow | undefined;
  charges: readonly Charge[];
  /** Token for a batch of the epoch, if one was ever drawn. */
  token: Token | undefined;
  /** The batch that was neither delivered nor dropped, of any epoch; there is at most one. */
  waiting: BatchRow | undefined;
}

/** The two final states of a batch. */
export type FinalState = Exclude<BatchState, "charged">;

/** A batch that may be sent. */
export type SendableBatch = BatchRow & { bytes: Uint8Array };

/** The last batch, in a form that the owner can read. */
export interface LeftDevice extends Omit<ShownRow, "only" | "purpose"> {
  state: BatchState;
  /** SHA-256 of the batch's bytes in hexadecimal. The charge has it as its `purpose`. */
  hash: string;
}

/** Tables that `EpochState` is read from. */
const STATE_TABLES: TableName[] = ["settings", "batches", "charges", "tokens"];

/** Draws a row at random. The probabilities may depend on the earlier charges. */
type Draw<Row> = (charges: readonly Charge[]) => Row;

/** The batches, charges and random draws of a device. */
export class Outbox {
  constructor(private readonly database: Database) {}

  /**
   * Return the state of an epoch. It consists of public data and the ledger, and does not depend on
   * the history.
   */
  readState(epoch: number): Promise<EpochState> {
    return this.database.read(STATE_TABLES, (transaction) => readStateIn(transaction, epoch));
  }

  /**
   * Store a batch together with its charge. Return false, and store neither, if that is not
   * allowed.
   *
   * The batch may be sent only after this method returned true. One transaction checks and writes,
   * and the browser runs one writing transaction at a time. So an epoch has both a batch and its
   * charge or neither, even after a crash or with two open tabs. An epoch never gets a second
   * batch, and no batch is sent without a charge.
   *
   * `isAllowed` receives the state inside the transaction. It can refuse because of a pause, a
   * charge or another batch that was stored while this batch was sealed. A changed generation also
   * refuses the batch, because the owner has forgotten the history meanwhile.
   *
   * Sealing must happen before the transaction, because a transaction ends while other promises are
   * awaited. A refused batch is discarded. This is safe: none of its bytes was stored or sent, so
   * its random draws are unknown to everybody, and nothing was spent. The decision does not depend
   * on those draws, so it favours no report.
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

  /**
   * Return the plan of an epoch. It is drawn and stored at the first call; later calls return the
   * same plan, also after a restart.
   */
  drawPlan(epoch: number, draw: Draw<Plan>): Promise<Plan> {
    return this.#drawOnce("plans", epoch, epoch, draw);
  }

  /**
   * Return the token of an epoch. It is drawn one epoch earlier, so tokens of the preceding epoch
   * are kept.
   */
  drawToken(epoch: number, draw: Draw<Token>): Promise<Token> {
    return this.#drawOnce("tokens", epoch, epoch - 1, draw);
  }

  /**
   * Return the row of an epoch, and draw it at the first call. A draw also deletes rows of epochs
   * before `oldest`.
   */
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

  /**
   * Update the fields of a token, and return the token. A `state` that is stored already is not
   * replaced.
   */
  updateToken(epoch: number, news: Partial<Token>): Promise<Token | undefined> {
    return this.database.write(["tokens"], async (transaction) => {
      const rows = transaction.objectStore("tokens");
      const row = await awaitRequest(rows.get(epoch));
      const next = row && { ...row, ...news, state: row.state ?? news.state ?? null };
      if (next !== undefined) rows.put(next);
      return next;
    });
  }

  /** Return the plan of the latest epoch, or null. */
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
        return state; // the owner has forgotten the batch meanwhile
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
