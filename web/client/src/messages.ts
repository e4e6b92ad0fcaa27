/**
 * Questions to a worker and their answers.
 *
 * Each question gets exactly one answer, even if it fails. An error arrives with its original
 * class.
 */

// biome-ignore lint/suspicious/noExplicitAny: the arguments are those of each function
export type Calls = Record<string, (...args: any[]) => unknown>;

import type { Terms } from "./epoch.js";
import * as errors from "./errors.js";

/** A connection: a worker, or one end of a message channel. */
export interface Line {
  postMessage(message: unknown, transfer?: Transferable[]): void;
  addEventListener(
    kind: "message",
    listener: (event: MessageEvent) => void,
    options?: { once: boolean },
  ): void;
}

interface Question {
  number: number;
  name: string;
  args: unknown[];
}

type Answer = { number: number; value: unknown } | { number: number; error: ErrorMessage };

/** An error in a form that can be posted. */
export interface ErrorMessage {
  name: string;
  message: string;
  retryAfter: number | undefined;
  /** Fields of a `TermsError`. */
  terms: { worse: readonly string[]; asked: Terms } | undefined;
}

/** Asks a question, and returns its answer. */
export type Ask<Functions extends Calls> = <Name extends keyof Functions & string>(
  name: Name,
  ...args: Parameters<Functions[Name]>
) => Promise<Awaited<ReturnType<Functions[Name]>>>;

/**
 * Connect to a worker. Return a function that asks it questions and resolves with the answers.
 *
 * Messages that are not answers go to `onMessage`. After `ended` is aborted, every question fails,
 * also those that wait for an answer.
 */
export function connect<Functions extends Calls>(
  line: Line,
  onMessage: (message: unknown) => void = () => {},
  ended: AbortSignal = new AbortController().signal,
): Ask<Functions> {
  const pending = new Map<number, (answer: Answer) => void>();
  let questionCount = 0;
  const makeClosedAnswer = (number: number) => ({
    number,
    error: toErrorMessage(new errors.SettingsError(CLOSED_MESSAGE)),
  });
  ended.addEventListener("abort", () => {
    for (const [number, answer] of pending) answer(makeClosedAnswer(number));
    pending.clear();
  });
  line.addEventListener("message", ({ data }: MessageEvent<Answer>) => {
    const settle = pending.get(data.number);
    pending.delete(data.number);
    if (settle === undefined) onMessage(data);
    else settle(data);
  });
  return (name, ...args) =>
    new Promise((resolve, reject) => {
      questionCount += 1;
      pending.set(questionCount, (answer) => {
        if ("error" in answer) reject(toError(answer.error));
        else resolve(answer.value as Awaited<ReturnType<Functions[typeof name]>>);
      });
      if (ended.aborted) return pending.get(questionCount)?.(makeClosedAnswer(questionCount));
      const ports = args.filter((value) => value instanceof MessagePort);
      line.postMessage({ number: questionCount, name, args } satisfies Question, ports);
    });
}

/**
 * Answer questions one after the other, so that no question keeps the transaction of another one
 * open.
 *
 * `onAnswer` is called after each answer with its error, or with null.
 */
export function serve(
  line: Line,
  calls: Calls,
  onAnswer: (error: ErrorMessage | null) => void = () => {},
): void {
  let previous: Promise<void> = Promise.resolve();
  line.addEventListener("message", ({ data }: MessageEvent<Question>) => {
    previous = previous.then(async () => {
      const reply = await answerQuestion(calls, data);
      line.postMessage(reply);
      onAnswer("error" in reply ? reply.error : null);
    });
  });
}

async function answerQuestion(calls: Calls, { number, name, args }: Question): Promise<Answer> {
  try {
    return { number, value: await calls[name]?.(...args) };
  } catch (error) {
    return { number, error: toErrorMessage(error) };
  }
}

/**
 * Convert an error to a message. Browsers post neither the class nor the additional fields of an
 * error.
 */
export function toErrorMessage(error: unknown): ErrorMessage {
  const { name, message } = error instanceof Error ? error : { name: "", message: String(error) };
  const retryAfter = error instanceof errors.UnavailableError ? error.retryAfter : undefined;
  const terms =
    error instanceof errors.TermsError ? { worse: error.worse, asked: error.terms } : undefined;
  return { name, message, retryAfter, terms };
}

/**
 * Convert a message back to an error. Errors of unknown classes come from the browser, and become a
 * `StoreError`.
 */
export function toError({ name, message, retryAfter, terms }: ErrorMessage): errors.SottovoceError {
  if (terms !== undefined) return new errors.TermsError(terms.worse, terms.asked);
  if (name === "UnavailableError") return new errors.UnavailableError(message, retryAfter);
  if (name === "PostponedError") return new errors.PostponedError(message, retryAfter);
  const KnownClass =
    ERROR_CLASSES.find((ErrorClass) => new ErrorClass("").name === name) ?? errors.StoreError;
  return new KnownClass(message);
}

const CLOSED_MESSAGE = "close() was called; open another client";

const ERROR_CLASSES = [
  ...[errors.ClosedError, errors.LedgerError, errors.ProtocolError, errors.RefusedError],
  ...[errors.SettingsError, errors.SottovoceError, errors.StoreError, errors.UntrustedError],
];
