/** What HTTP adds to the bytes: bodies that are never longer than allowed, and when to try again. */

import { concat } from "./bytes.js";
import { ProtocolError } from "./errors.js";

const MAX_PROBLEM = 16 * 1024;
/** What, beside every 5xx, means: the same again later. */
const LATER: readonly number[] = [408, 425, 429];

/** Whether the same request may succeed another time. */
export function isForLater(status: number): boolean {
  return LATER.includes(status) || status >= 500;
}

/** An answer as it arrives. */
export interface Arriving {
  response: Response;
  /** Where it was asked for. */
  url: string;
  /** To be called for every piece that arrived. */
  alive: () => void;
}

/** The body, given up as soon as it is longer than `most`: it is never held in memory then. */
export async function readCapped(arriving: Arriving, most: number): Promise<Uint8Array> {
  const { response, url, alive } = arriving;
  const tooLong = new ProtocolError(`${url}: longer than ${most} bytes; it was not read`);
  if (Number(response.headers.get("content-length") ?? 0) > most) {
    throw tooLong;
  }
  const pieces: Uint8Array[] = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (let next = await reader?.read(); next?.value !== undefined; next = await reader?.read()) {
    alive();
    size += next.value.length;
    if (size > most) {
      throw tooLong;
    }
    pieces.push(next.value);
  }
  return concat(pieces);
}

/** The `type` of a problem (RFC 9457); undefined if the answer is none. */
export async function problemType(arriving: Arriving): Promise<unknown> {
  try {
    const body = await readCapped(arriving, MAX_PROBLEM);
    const problem: unknown = JSON.parse(new TextDecoder().decode(body));
    return isObject(problem) ? problem.type : undefined;
  } catch (error) {
    if (error instanceof ProtocolError || error instanceof SyntaxError) {
      return undefined;
    }
    throw error;
  }
}

function isObject(value: unknown): value is { type?: unknown } {
  return typeof value === "object" && value !== null;
}

/** Seconds from now; a number of seconds or a date (RFC 9110, 10.2.3), else nothing. */
export function secondsToWait(header: string | null, now: number): number | undefined {
  const text = header ?? "";
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : Date.parse(text) / 1000 - now;
  return Number.isFinite(seconds) && seconds > 0 ? seconds : undefined;
}

/** Gives a request up when nothing has come for so many seconds. */
export class Watch {
  readonly #controller = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly patience: number) {
    this.alive();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Something came. */
  alive(): void {
    clearTimeout(this.#timer);
    const late = () => this.#controller.abort(new Error(`no answer for ${this.patience} seconds`));
    this.#timer = setTimeout(late, this.patience * 1000);
  }

  /** It is over: what was not read is not to come any more. */
  end(): void {
    clearTimeout(this.#timer);
    this.#controller.abort();
  }
}
