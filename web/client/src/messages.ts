/**
 * Questions to a worker and their answers. Each question gets exactly one answer, also if it fails, and
 * an error arrives as what it was.
 */

// biome-ignore lint/suspicious/noExplicitAny: the arguments are those of each function
export type Calls = Record<string, (...given: any[]) => unknown>;

import type { Terms } from "./epoch.js";
/** What a worker, or the end of a channel, must be able to do. */
import * as errors from "./errors.js";

export interface Line {
  postMessage(message: unknown, transfer?: Transferable[]): void;
  addEventListener(kind: "message", listener: (event: MessageEvent) => void): void;
}

interface Asked {
  number: number;
  name: string;
  given: unknown[];
}

type Answered = { number: number; value: unknown } | { number: number; failed: Told };

/** An error on its way. */
export interface Told {
  name: string;
  message: string;
  retryAfter: number | undefined;
  terms: { worse: readonly string[]; asked: Terms } | undefined;
}

export type Ask<Known extends Calls> = <Name extends keyof Known & string>(
  name: Name,
  ...given: Parameters<Known[Name]>
) => Promise<Awaited<ReturnType<Known[Name]>>>;

/**
 * Numbers the questions, and brings each answer to whoever asked; what is told unasked goes to `hear`.
 * Once it was ended, every question fails, also those that wait.
 */
export function connect<Known extends Calls>(
  line: Line,
  hear: (told: unknown) => void = () => {},
  ended: AbortSignal = new AbortController().signal,
): Ask<Known> {
  const pending = new Map<number, (answer: Answered) => void>();
  let asked = 0;
  const closed = (number: number) => ({ number, failed: told(new errors.SettingsError(CLOSED)) });
  ended.addEventListener("abort", () => {
    for (const [number, answer] of pending) answer(closed(number));
    pending.clear();
  });
  line.addEventListener("message", ({ data }: MessageEvent<Answered>) => {
    const waiting = pending.get(data.number);
    pending.delete(data.number);
    if (waiting === undefined) hear(data);
    else waiting(data);
  });
  return (name, ...given) =>
    new Promise((resolve, reject) => {
      asked += 1;
      pending.set(asked, (answer) => {
        if ("failed" in answer) reject(revived(answer.failed));
        else resolve(answer.value as Awaited<ReturnType<Known[typeof name]>>);
      });
      if (ended.aborted) return pending.get(asked)?.(closed(asked));
      const ports = given.filter((each) => each instanceof MessagePort);
      line.postMessage({ number: asked, name, given } satisfies Asked, ports);
    });
}

/**
 * Answers what is asked, one question after the other: none keeps another's transaction open. `heard` is
 * told after each whether it failed.
 */
export function serve(
  line: Line,
  calls: Calls,
  heard: (failed: Told | null) => void = () => {},
): void {
  let before: Promise<void> = Promise.resolve();
  line.addEventListener("message", ({ data }: MessageEvent<Asked>) => {
    before = before.then(async () => {
      const answered = await answer(calls, data);
      line.postMessage(answered);
      heard("failed" in answered ? answered.failed : null);
    });
  });
}

async function answer(calls: Calls, { number, name, given }: Asked): Promise<Answered> {
  try {
    return { number, value: await calls[name]?.(...given) };
  } catch (error) {
    return { number, failed: told(error) };
  }
}

/** As it can be sent: browsers keep neither the class nor the fields of an error. */
export function told(error: unknown): Told {
  const { name, message } = error instanceof Error ? error : { name: "", message: String(error) };
  const retryAfter = error instanceof errors.UnavailableError ? error.retryAfter : undefined;
  const terms =
    error instanceof errors.TermsError ? { worse: error.worse, asked: error.asked } : undefined;
  return { name, message, retryAfter, terms };
}

/** The error that it was; one that is none of ours is the storage's or the browser's. */
export function revived({ name, message, retryAfter, terms }: Told): errors.SottovoceError {
  if (terms !== undefined) return new errors.TermsError(terms.worse, terms.asked);
  if (name === "UnavailableError") return new errors.UnavailableError(message, retryAfter);
  if (name === "PostponedError") return new errors.PostponedError(message, retryAfter);
  const Kind = KINDS.find((each) => new each("").name === name) ?? errors.StoreError;
  return new Kind(message);
}

const CLOSED = "this client is closed";

const KINDS = [
  ...[errors.ClosedError, errors.LedgerError, errors.ProtocolError, errors.RefusedError],
  ...[errors.SettingsError, errors.SottovoceError, errors.StoreError, errors.UntrustedError],
];
