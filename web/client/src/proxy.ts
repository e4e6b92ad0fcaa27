/**
 * The proxy over HTTP: all requests that a device makes.
 *
 * Nothing in a request identifies the device. Only batches depend on the owner's history, and they
 * are randomised.
 */

import { concatenate, toHex } from "./bytes.js";
import { MAX_CATALOGUE_BYTES } from "./catalogue.js";
import {
  ClosedError,
  ProtocolError,
  RefusedError,
  SottovoceError,
  UnavailableError,
} from "./errors.js";
import type { Grid } from "./grid.js";
import { isObject } from "./json.js";
import { MAX_SIGNED_MANIFEST_BYTES } from "./manifest.js";
import { MAX_PATCH_BYTES } from "./patch.js";
import { MAX_SIGNED_SHELF_BYTES } from "./shelf.js";

const WRONG_EPOCH_TYPE = "urn:sottovoce:wrong-epoch";
/** Seconds without a single byte after which a request is aborted. */
const PATIENCE_SECONDS = 30;
/**
 * Rate that decides how long an answer may take: twice the patience, plus the time that the maximum
 * number of its bytes takes at this rate.
 *
 * Without this deadline, a proxy that sends a byte now and then could keep the locks of all tabs: a
 * pause or `forget` would never be finished.
 */
const MIN_BYTES_PER_SECOND = 2 ** 16;

/**
 * Options that make all requests look the same, as far as a browser lets a page decide.
 *
 * Requests send no cookies, no address of the page and not the user's languages, and do not use the
 * cache: `If-None-Match` would reveal what was fetched last. Redirects are never followed. The mode
 * is "manual" and not "error", so that a redirect can be told apart from a network failure. If the
 * page has another origin than the proxy, the browser names it in every request; a page cannot
 * prevent that.
 */
const FETCH_OPTIONS = {
  mode: "cors",
  credentials: "omit",
  referrerPolicy: "no-referrer",
  cache: "no-store",
  redirect: "manual",
} as const satisfies RequestInit;

const COMMON_HEADERS = { "accept-language": "*" };

/** Bytes of an answer to a token request: a proof (64) and an element (32). */
const EVALUATION_BYTES = 96;

function toPost(body: Uint8Array, signal: AbortSignal | null = null): RequestInit {
  const headers = { ...COMMON_HEADERS, "content-type": "application/octet-stream" };
  return { method: "POST", headers, body: new Uint8Array(body), signal };
}

export interface ProxyOptions {
  /** Returns Unix seconds. */
  clock: () => number;
  /** The grid of moments at which requests leave. */
  grid: Pick<Grid, "mark" | "waitForStep">;
  fetch?: typeof fetch | undefined;
  /** Seconds without a byte after which a request is aborted. */
  patience?: number;
}

/**
 * The proxy at an address.
 *
 * A method throws an `UnavailableError` if the same request may succeed later, and a `RefusedError`
 * if it will not.
 */
export class HttpProxy {
  readonly #fetch: typeof fetch;

  constructor(
    private readonly address: string,
    private readonly options: ProxyOptions,
  ) {
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  }

  /** Fetch the signed manifest of the current epoch, the same for everybody. */
  fetchManifest(): Promise<Uint8Array> {
    return this.#get("/v2/manifest", MAX_SIGNED_MANIFEST_BYTES);
  }

  /** Fetch the signed shelf, the same for everybody. */
  fetchShelf(): Promise<Uint8Array> {
    return this.#get("/v2/shelf", MAX_SIGNED_SHELF_BYTES);
  }

  /** Fetch the signed manifest of an epoch; null if the proxy no longer has it. */
  fetchPastManifest(epoch: number): Promise<Uint8Array | null> {
    return this.#getIfPresent(`/v2/manifests/${epoch}`, MAX_SIGNED_MANIFEST_BYTES);
  }

  /**
   * Fetch the model file with this hash. Throws a `ProtocolError` if it is longer than `maxBytes`.
   */
  fetchModel(hash: Uint8Array, maxBytes: number): Promise<Uint8Array> {
    return this.#get(`/v2/models/${toHex(hash)}`, maxBytes);
  }

  /** Fetch the model file of an earlier epoch; null if the proxy no longer has it. */
  fetchPastModel(hash: Uint8Array, maxBytes: number): Promise<Uint8Array | null> {
    return this.#getIfPresent(`/v2/models/${toHex(hash)}`, maxBytes);
  }

  fetchCatalogue(hash: Uint8Array): Promise<Uint8Array> {
    return this.#get(`/v2/catalogues/${toHex(hash)}`, MAX_CATALOGUE_BYTES);
  }

  fetchPatch(hash: Uint8Array): Promise<Uint8Array> {
    return this.#get(`/v2/patches/${toHex(hash)}`, MAX_PATCH_BYTES);
  }

  /**
   * Check that the proxy would accept a batch now. Throws a `ClosedError` if the epoch of this
   * manifest is over. `manifest` is the hash of the manifest.
   */
  checkAcceptsBatch(manifest: Uint8Array): Promise<void> {
    return this.#requestBatches(`/${toHex(manifest)}`, 204, { headers: COMMON_HEADERS });
  }

  /**
   * Send a batch, and return when the proxy has certainly stored it. Throws a `ClosedError` if its
   * epoch is over.
   *
   * Only the status 202 means that the batch was accepted: the log-in page of a hotel also answers
   * 200. If the signal is aborted, the request is aborted, or not made at all.
   */
  sendBatch(batch: Uint8Array, signal?: AbortSignal): Promise<void> {
    return this.#requestBatches("", 202, toPost(batch, signal));
  }

  /**
   * Ask the proxy to evaluate a blinded token. Return null if another device of the account has
   * already requested a token for this epoch.
   */
  requestToken(request: Uint8Array, signal?: AbortSignal): Promise<Uint8Array | null> {
    return this.#getIfPresent("/v2/tokens", EVALUATION_BYTES, 409, toPost(request, signal));
  }

  #requestBatches(path: string, expectedStatus: number, init: RequestInit): Promise<void> {
    return this.#exchange(`/v2/batches${path}`, init, 0, async (answer) => {
      if (answer.response.status !== expectedStatus) {
        await this.#refuse(answer);
      }
    });
  }

  #get(path: string, maxBytes: number): Promise<Uint8Array> {
    return this.#exchange(path, { headers: COMMON_HEADERS }, maxBytes, (answer) =>
      this.#readBody(answer, maxBytes),
    );
  }

  #getIfPresent(
    path: string,
    maxBytes: number,
    absentStatus = 404,
    init: RequestInit = { headers: COMMON_HEADERS },
  ): Promise<Uint8Array | null> {
    return this.#exchange(path, init, maxBytes, async (answer) =>
      answer.response.status === absentStatus ? null : this.#readBody(answer, maxBytes),
    );
  }

  async #readBody(answer: Answer, maxBytes: number): Promise<Uint8Array> {
    if (answer.response.status !== 200) {
      await this.#refuse(answer);
    }
    return readCapped(answer, maxBytes);
  }

  /**
   * Make a request at the next step of the grid, for an answer of at most `maxBytes`. All requests
   * are made here.
   */
  async #exchange<Result>(
    path: string,
    init: RequestInit,
    maxBytes: number,
    work: (answer: Answer) => Promise<Result>,
  ): Promise<Result> {
    const { grid, patience = PATIENCE_SECONDS } = this.options;
    await grid.waitForStep(init.signal);
    const maxSeconds = 2 * patience + maxBytes / MIN_BYTES_PER_SECOND;
    const watch = new Watch(patience, maxSeconds, init.signal);
    const url = this.address + path;
    try {
      watch.signal.throwIfAborted();
      const response = await this.#fetch(url, { ...FETCH_OPTIONS, ...init, signal: watch.signal });
      watch.reset();
      return await work({ response, url, reportProgress: () => watch.reset() });
    } catch (error) {
      throw error instanceof SottovoceError ? error : createUnreachableError(url, error);
    } finally {
      grid.mark();
      watch.end();
    }
  }

  /** Throw the error that corresponds to the status of an answer. */
  async #refuse(answer: Answer): Promise<never> {
    const { response, url } = answer;
    if (isRedirect(response)) {
      throw new RefusedError(
        `${url}: the proxy answered with a redirect; redirects are not followed`,
      );
    }
    const message = `${url}: the proxy answered ${response.status}`;
    if (RETRY_STATUSES.includes(response.status) || response.status >= 500) {
      const seconds = parseRetryAfter(response.headers.get("retry-after"), this.options.clock());
      throw new UnavailableError(`${message}; try again later`, seconds);
    }
    if (response.status === 410) {
      throw new ClosedError(`${message}: the epoch is over`);
    }
    if (response.status === 409 && (await readProblemType(answer)) === WRONG_EPOCH_TYPE) {
      throw new ClosedError(`${message}: its current epoch is another one`);
    }
    throw new RefusedError(message);
  }
}

/** Check for a redirect. Browsers report the status 0 for one, Node the actual status. */
function isRedirect(response: Response): boolean {
  return response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400);
}

function createUnreachableError(url: string, error: unknown): UnavailableError {
  const reason = error instanceof Error ? error.message || error.name : String(error);
  // A browser does not tell a page whether the network failed or the proxy does not allow the
  // origin.
  const pageOrigin = error instanceof TypeError ? findOtherOrigin(url) : null;
  const hint =
    pageOrigin === null
      ? ""
      : `, or does not allow pages of ${pageOrigin} (see \`origins\` in its proxy.toml)`;
  return new UnavailableError(
    `${url}: the proxy cannot be reached (${reason})${hint}; try again later`,
  );
}

/** Return the origin of this page or worker if it differs from the proxy's. */
function findOtherOrigin(url: string): string | null {
  const pageOrigin: string | undefined = globalThis.location?.origin;
  return pageOrigin === undefined || pageOrigin === new URL(url).origin ? null : pageOrigin;
}

const MAX_PROBLEM_BYTES = 16 * 1024;
/** Statuses besides 5xx after which the same request may succeed later. */
const RETRY_STATUSES: readonly number[] = [408, 425, 429];

/** An answer that is being read. */
export interface Answer {
  response: Response;
  /** The address of the request. */
  url: string;
  /** Must be called for every piece of the body that arrives. */
  reportProgress: () => void;
}

/** Read a body. Throws a `ProtocolError` as soon as it is longer than `maxBytes`. */
async function readCapped(answer: Answer, maxBytes: number): Promise<Uint8Array> {
  const { response, url, reportProgress } = answer;
  const tooLong = new ProtocolError(`${url}: longer than ${maxBytes} bytes; it was not read`);
  if (Number(response.headers.get("content-length") ?? 0) > maxBytes) {
    throw tooLong;
  }
  const pieces: Uint8Array[] = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (let next = await reader?.read(); next?.value !== undefined; next = await reader?.read()) {
    reportProgress();
    size += next.value.length;
    if (size > maxBytes) {
      throw tooLong;
    }
    pieces.push(next.value);
  }
  return concatenate(pieces);
}

/** Return the `type` of a problem (RFC 9457), or undefined if the body is not a problem. */
async function readProblemType(answer: Answer): Promise<unknown> {
  try {
    const body = await readCapped(answer, MAX_PROBLEM_BYTES);
    const problem: unknown = JSON.parse(new TextDecoder().decode(body));
    return isObject(problem) ? problem.type : undefined;
  } catch (error) {
    if (error instanceof ProtocolError || error instanceof SyntaxError) {
      return undefined;
    }
    throw error;
  }
}

/**
 * Parse `Retry-After`, which is a number of seconds or a date (RFC 9110, 10.2.3). Return seconds,
 * or undefined if it is neither. `now` is in Unix seconds.
 */
function parseRetryAfter(header: string | null, now: number): number | undefined {
  const text = header ?? "";
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : Date.parse(text) / 1000 - now;
  return Number.isFinite(seconds) && seconds > 0 ? seconds : undefined;
}

/**
 * Aborts a request if no byte arrives for `patience` seconds, if it takes more than `maxSeconds`
 * altogether, or if its sender aborts it.
 */
class Watch {
  readonly #controller = new AbortController();
  readonly #deadline: number;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly patience: number,
    maxSeconds: number,
    sender: AbortSignal | null | undefined,
  ) {
    const abort = () => this.#controller.abort(sender?.reason);
    if (sender?.aborted) abort();
    sender?.addEventListener("abort", abort, { signal: this.signal });
    this.#deadline = performance.now() + maxSeconds * 1000;
    this.reset();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  reset(): void {
    clearTimeout(this.#timer);
    const abort = () => this.#controller.abort(new Error("no answer in time"));
    const milliseconds = Math.min(this.patience * 1000, this.#deadline - performance.now());
    this.#timer = setTimeout(abort, milliseconds);
  }

  /** Stop the timer, and drop the part of the body that was not read. */
  end(): void {
    clearTimeout(this.#timer);
    this.#controller.abort();
  }
}
