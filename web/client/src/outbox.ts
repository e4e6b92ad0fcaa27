/**
 * The batch on its way, its charge, and what is shown of it.
 *
 * Charged before it is sent, sealed once, resent byte for byte, at most one for each epoch: all of
 * that rests on `keep`, the only transaction that makes a batch or a charge.
 */

import {
  answer,
  type BatchRow,
  type Database,
  type Rows,
  type Settings,
  type ShownRow,
  type State,
  type Table,
  type Transaction,
} from "./database.js";
import { type Charge, decide } from "./ledger.js";
import { settingsIn, waitingIn } from "./store.js";
import type { Plan, Token } from "./timing.js";

/** A batch, its price, what is shown of it, and whose history it is of. Nothing of it is kept yet. */
export interface MadeBatch {
  batch: BatchRow;
  charge: Charge;
  shown: ShownRow;
  /** That the settings named before the history was read. */
  generation: string;
}

/** All that decides whether an epoch may have a batch, as of one moment. */
export interface EpochState {
  settings: Settings;
  /** The epoch's batch, if it ever had one. */
  batch: BatchRow | undefined;
  charges: readonly Charge[];
  /** For a batch of the epoch, if it ever was to have one. */
  token: Token | undefined;
  /** A batch of any epoch that has neither arrived nor been given up; there is one at most. */
  waiting: BatchRow | undefined;
}

/** The two ways in which a batch ends. */
export type End = Exclude<State, "charged">;

/** A batch that may be sent. */
export type Waiting = BatchRow & { bytes: Uint8Array };

/** The last batch, for its owner's eyes. */
export interface LeftDevice extends Omit<ShownRow, "only" | "purpose"> {
  state: State;
  /** SHA-256 of the bytes, in hexadecimal: its name in the ledger. */
  hash: string;
}

const STANDING: Table[] = ["settings", "batches", "charges", "tokens"];

/** The chance of a coin depends on the charges so far. */
type Draw<Row> = (charges: readonly Charge[]) => Row;

export class Outbox {
  constructor(private readonly database: Database) {}

  /** Where an epoch stands; from public data and the ledger, not from the history. */
  standing(epoch: number): Promise<EpochState> {
    return this.database.read(STANDING, (transaction) => standingIn(transaction, epoch));
  }

  /**
   * Keep a batch and charge for it, or neither; whether it was kept. It may leave when this has
   * returned true, not before.
   *
   * One transaction looks and writes, and the browser runs one writer at a time: whatever two tabs
   * do, and wherever a crash falls, an epoch has both a batch and its charge, or none of them. So
   * there is never a second batch, nor one that was sent and not paid for. `stands` sees what holds
   * inside the transaction: a pause, a charge or a batch that came while this one was being sealed
   * ends it, and so does another generation: the owner has forgotten everything meanwhile.
   *
   * Sealing takes other promises than the database's, so it must be done before. A batch that is
   * not kept was sealed for nothing and is thrown away, and that is sound: no byte of it was stored
   * or sent, so nobody learns anything from its coins and nothing was spent. Nor does throwing away
   * favour some reports over others: what decides knows nothing of what the coins said.
   */
  keep(made: MadeBatch, stands: (standing: EpochState) => boolean): Promise<boolean> {
    return this.database.write([...STANDING, "shown"], async (transaction) => {
      const standing = await standingIn(transaction, made.batch.epoch);
      const isOfNow = standing.settings.generation === made.generation;
      const { limit } = standing.settings;
      const isPaid = decide(limit, standing.charges, made.charge) === "charged";
      if (!stands(standing) || !isOfNow || !isPaid) {
        return false;
      }
      transaction.objectStore("charges").add(made.charge);
      transaction.objectStore("batches").add(made.batch);
      transaction.objectStore("shown").put(made.shown);
      return true;
    });
  }

  /** What the coins said of an epoch; drawn once and kept: a restart gives no second toss. */
  plan(epoch: number, draw: Draw<Plan>): Promise<Plan> {
    return this.#drawn("plans", epoch, epoch, draw);
  }

  /** The same of its token, which is fetched in the epoch before. */
  token(epoch: number, draw: Draw<Token>): Promise<Token> {
    return this.#drawn("tokens", epoch, epoch - 1, draw);
  }

  /** What is older than `oldest` is forgotten. */
  #drawn<Row extends Plan | Token>(
    table: "plans" | "tokens",
    epoch: number,
    oldest: number,
    draw: Draw<Row>,
  ): Promise<Row> {
    return this.database.write([table, "charges"], async (transaction) => {
      const rows = transaction.objectStore(table) as unknown as Rows<Row>;
      const known = await answer(rows.get(epoch));
      if (known !== undefined) {
        return known;
      }
      const drawn = draw(await answer(transaction.objectStore("charges").getAll()));
      for (const { epoch: old } of await answer(rows.getAll())) {
        if (old < oldest) rows.delete(old);
      }
      rows.add(drawn);
      return drawn;
    });
  }

  tokens(): Promise<Token[]> {
    return this.database.all("tokens");
  }

  /** What has become known of a token; as it is now. Its state is that of whoever was first. */
  learn(epoch: number, news: Partial<Token>): Promise<Token | undefined> {
    return this.database.write(["tokens"], async (transaction) => {
      const rows = transaction.objectStore("tokens");
      const row = await answer(rows.get(epoch));
      const next = row && { ...row, ...news, state: row.state ?? news.state ?? null };
      if (next !== undefined) rows.put(next);
      return next;
    });
  }

  /** The last one that was drawn. */
  async lastPlan(): Promise<Plan | null> {
    const plans = await this.database.all("plans");
    return plans.at(-1) ?? null;
  }

  waiting(): Promise<BatchRow | undefined> {
    return this.database.read(["batches"], waitingIn);
  }

  /** It arrived or was given up: its bytes are of no use any more. What became of it in the end. */
  finish(epoch: number, state: End, now: number): Promise<End> {
    return this.database.write(["batches", "settings"], async (transaction) => {
      const settings = await settingsIn(transaction);
      transaction.objectStore("settings").put({ ...settings, lastOver: now });
      const row = await answer(transaction.objectStore("batches").get(epoch));
      if (row === undefined) {
        return state; // its owner has forgotten it in the meantime
      }
      const end = row.state === "sent" ? "sent" : state; // another tab may have had the better luck
      transaction.objectStore("batches").put({ ...row, state: end, bytes: null });
      return end;
    });
  }

  /** Not to be sent before that moment: the proxy asked for it. */
  postpone(epoch: number, notBefore: number): Promise<void> {
    return this.database.write(["batches"], async (transaction) => {
      const row = await answer(transaction.objectStore("batches").get(epoch));
      if (row !== undefined) {
        transaction.objectStore("batches").put({ ...row, notBefore });
      }
    });
  }

  async counts(): Promise<Record<State, number>> {
    const rows = await this.database.all("batches");
    const counts = { charged: 0, sent: 0, dropped: 0 };
    for (const row of rows) {
      counts[row.state] += 1;
    }
    return counts;
  }

  charges(): Promise<Charge[]> {
    return this.database.all("charges");
  }

  lastBatch(): Promise<LeftDevice | null> {
    return this.database.read(["batches", "shown"], async (transaction) => {
      const found = [
        answer(transaction.objectStore("shown").get(1)),
        answer(transaction.objectStore("batches").getAll()),
      ] as const;
      const [shown, batches] = await Promise.all(found);
      const batch = batches.find(({ epoch }) => epoch === shown?.epoch);
      if (shown === undefined || batch === undefined) {
        return null;
      }
      const { only: _, purpose: hash, ...rest } = shown;
      return { ...rest, hash, state: batch.state };
    });
  }
}

async function standingIn(transaction: Transaction, epoch: number): Promise<EpochState> {
  const [settings, batches, charges, token] = await Promise.all([
    settingsIn(transaction),
    answer(transaction.objectStore("batches").getAll()),
    answer(transaction.objectStore("charges").getAll()),
    answer(transaction.objectStore("tokens").get(epoch)),
  ]);
  const batch = batches.find((each) => each.epoch === epoch);
  const waiting = batches.find(({ state }) => state === "charged");
  return { settings, batch, charges, token, waiting };
}
