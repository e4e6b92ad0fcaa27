/** Power cuts: after some steps nothing works any more, and what was not committed is gone. */

import { drawSystemEntropy, drawSystemWords } from "../src/coin.js";
import type { DeviceOptions } from "./world.js";

/** No error of the program: its end. */
export class PowerCut extends Error {}

/** The steps that are left before a power cut. */
export class Life {
  constructor(
    public left: number,
    /** Turns of the event loop that its last transaction is given. */
    readonly turns = 0,
  ) {}

  step(): void {
    if (this.left <= 0) {
      throw new PowerCut("the lights went out");
    }
    this.left -= 1;
  }
}

/** Make everything that a client does a step of its life; its last transaction may be cut in two. */
export function makeMortal(life: Life, factory: IDBFactory): DeviceOptions {
  // A life that ends within a transaction counts transactions only.
  const step = () => (life.turns === 0 ? life.step() : undefined);
  return {
    indexedDB: onTransaction(factory, (begin) => {
      life.step();
      return life.left === 0 ? abortAfter(begin(), life.turns, "AbortError") : begin();
    }),
    fetch: async (input, init) => {
      step();
      const response = await fetch(input, init);
      step();
      return response;
    },
    words: (reports) => {
      step();
      return drawSystemWords(reports);
    },
    entropy: (size) => {
      step();
      return drawSystemEntropy(size);
    },
    sleep: async () => step(),
  };
}

/** Wrap a browser's storage: every transaction is begun by `ask`. */
export function onTransaction(
  factory: IDBFactory,
  ask: (begin: () => IDBTransaction, mode: string, options: unknown) => IDBTransaction,
): globalThis.IDBFactory {
  const open = (name: string, version?: number) => {
    const request = factory.open(name, version);
    request.addEventListener("success", () => {
      const { result: database } = request;
      const begin = database.transaction.bind(database);
      database.transaction = (stores, mode = "readonly", options) =>
        ask(() => begin(stores, mode, options), mode, options);
    });
    return request;
  };
  return { open } as unknown as globalThis.IDBFactory;
}

/** Abort a transaction after some turns of the event loop, unless it is complete by then. */
export function abortAfter(
  transaction: IDBTransaction,
  turns: number,
  name: string,
): IDBTransaction {
  const inside = transaction as unknown as { _state: string; _abort(name: string): void };
  const turn = (left: number) => {
    if (inside._state === "finished") {
      return;
    }
    if (left === 0) {
      inside._abort(name);
    } else {
      setImmediate(turn, left - 1);
    }
  };
  setImmediate(turn, turns);
  return transaction;
}
