/**
 * The proxy over HTTP: all that a device ever asks of it. Nothing in any request says who asks, but
 * the batch, which says it in noise.
 */

import { concat, toHex } from "./bytes.js";
import { MAX_CATALOGUE } from "./catalogue.js";
import {
  ClosedError,
  ProtocolError,
  RefusedError,
  SottovoceError,
  UnavailableError,
} from "./errors.js";
import { isObject } from "./json.js";
import { MAX_SIGNED_MANIFEST } from "./manifest.js";
import type { Grid } from "./schedule.js";
import { MAX_SIGNED_SHELF } from "./shelf.js";

const WRONG_EPOCH = "urn:sottovoce:wrong-epoch";
/** Seconds without a single byte after which an answer is given up. */
const PATIENCE = 30;

/**
 * Every device's requests look the same, as far as a browser lets a page decide: no cookie, no
 * address of the page, nothing from a cache (`If-None-Match` would tell what was seen last), and not
 * the languages of its user. Redirects are not followed: "manual" and not "error", so that one can
 * be told from a network that is away; the browser follows neither. A page of another origin than
 * the proxy's names its origin in every request; no page can take that away.
 */
const HYGIENE = {
  mode: "cors",
  credentials: "omit",
  referrerPolicy: "no-referrer",
  cache: "no-store",
  redirect: "manual",
} as const satisfies RequestInit;

const HEADERS = { "accept-language": "*" };

/** A proof, and an element. */
const EVALUATED = 96;

function posted(body: Uint8Array, signal: AbortSignal | null = null): RequestInit {
  const headers = { ...HEADERS, "content-type": "application/octet-stream" };
  return { method: "POST", headers, body: new Uint8Array(body), signal };
}

export interface ProxyOptions {
  /** Unix seconds. */
  clock: () => number;
  /** The moments at which requests leave. */
  grid: Pick<Grid, "mark" | "waitForStep">;
  fetch?: typeof fetch | undefined;
  /** Seconds without a byte after which an answer is given up. */
  patience?: number;
}

/** A proxy at an address. `UnavailableError`: the same may work later; `RefusedError`: it will not. */
export class HttpProxy {
  readonly #fetch: typeof fetch;

  constructor(
    private readonly address: string,
    private readonly options: ProxyOptions,
  ) {
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  }

  /** The signed manifest of the epoch, as everybody gets it. */
  manifest(): Promise<Uint8Array> {
    return this.#get("/v2/manifest", MAX_SIGNED_MANIFEST);
  }

  /** The signed shelf, as everybody gets it. */
  shelf(): Promise<Uint8Array> {
    return this.#get("/v2/shelf", MAX_SIGNED_SHELF);
  }

  /** That of any epoch; null if the proxy has it no more. */
  manifestOf(epoch: number): Promise<Uint8Array | null> {
    return this.#find(`/v2/manifests/${epoch}`, MAX_SIGNED_MANIFEST);
  }

  /** The model file with this hash; a longer one than `most` is a `ProtocolError`. */
  model(hash: Uint8Array, most: number): Promise<Uint8Array> {
    return this.#get(`/v2/models/${toHex(hash)}`, most);
  }

  /** The model file of any epoch; null if the proxy has it no more. */
  modelOf(hash: Uint8Array, most: number): Promise<Uint8Array | null> {
    return this.#find(`/v2/models/${toHex(hash)}`, most);
  }

  catalogue(hash: Uint8Array): Promise<Uint8Array> {
    return this.#get(`/v2/catalogues/${toHex(hash)}`, MAX_CATALOGUE);
  }

  /** Returns if a batch would be taken now; `ClosedError` when the epoch of this manifest is over. */
  checkTaken(manifest: Uint8Array): Promise<void> {
    return this.#ofBatches(`/${toHex(manifest)}`, 204, { headers: HEADERS });
  }

  /**
   * Returns when the proxy has it for certain; `ClosedError` when its epoch is over. Only 202 means
   * accepted: a hotel's log-in page also answers 200. An aborted signal ends the request, or keeps it
   * from being made.
   */
  send(batch: Uint8Array, signal?: AbortSignal): Promise<void> {
    return this.#ofBatches("", 202, posted(batch, signal));
  }

  /** What the proxy made of a blinded token; null if this account has had its own. */
  token(request: Uint8Array, signal?: AbortSignal): Promise<Uint8Array | null> {
    return this.#find("/v2/tokens", EVALUATED, 409, posted(request, signal));
  }

  #ofBatches(path: string, wanted: number, init: RequestInit): Promise<void> {
    return this.#exchange(`/v2/batches${path}`, init, async (arriving) => {
      if (arriving.response.status !== wanted) {
        await this.#refuse(arriving);
      }
    });
  }

  #get(path: string, most: number): Promise<Uint8Array> {
    return this.#exchange(path, { headers: HEADERS }, (arriving) => this.#body(arriving, most));
  }

  #find(
    path: string,
    most: number,
    none = 404,
    init: RequestInit = { headers: HEADERS },
  ): Promise<Uint8Array | null> {
    return this.#exchange(path, init, async (arriving) =>
      arriving.response.status === none ? null : this.#body(arriving, most),
    );
  }

  async #body(arriving: Arriving, most: number): Promise<Uint8Array> {
    if (arriving.response.status !== 200) {
      await this.#refuse(arriving);
    }
    return readCapped(arriving, most);
  }

  /** Make a request at its step of the grid: the only place where one is made. */
  async #exchange<Result>(
    path: string,
    init: RequestInit,
    work: (arriving: Arriving) => Promise<Result>,
  ): Promise<Result> {
    const { grid, patience = PATIENCE } = this.options;
    await grid.waitForStep();
    const watch = new Watch(patience, init.signal);
    const url = this.address + path;
    try {
      watch.signal.throwIfAborted();
      const response = await this.#fetch(url, { ...HYGIENE, ...init, signal: watch.signal });
      watch.alive();
      return await work({ response, url, alive: () => watch.alive() });
    } catch (error) {
      throw error instanceof SottovoceError ? error : unreachable(url, error);
    } finally {
      grid.mark();
      watch.end();
    }
  }

  /** Say what the status means for whoever sent this. */
  async #refuse(arriving: Arriving): Promise<never> {
    const { response, url } = arriving;
    if (isRedirect(response)) {
      throw new RefusedError(`${url}: the proxy sends us elsewhere; redirects are not followed`);
    }
    const told = `${url}: the proxy answered ${response.status}`;
    if (LATER.includes(response.status) || response.status >= 500) {
      const wait = secondsToWait(response.headers.get("retry-after"), this.options.clock());
      throw new UnavailableError(`${told}; try again later`, wait);
    }
    if (response.status === 410) {
      throw new ClosedError(`${told}: the epoch is over`);
    }
    if (response.status === 409 && (await problemType(arriving)) === WRONG_EPOCH) {
      throw new ClosedError(`${told}: it is at another epoch`);
    }
    throw new RefusedError(told);
  }
}

/** Browsers show of a redirect that it is one, as status 0; node shows its status. */
function isRedirect(response: Response): boolean {
  return response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400);
}

function unreachable(url: string, error: unknown): UnavailableError {
  const why = error instanceof Error ? error.message || error.name : String(error);
  // A browser tells no page which of the two it is; what failed later was not this.
  const here = error instanceof TypeError ? otherOrigin(url) : null;
  const perhaps =
    here === null ? "" : `, or does not allow pages of ${here} (see \`origins\` in its proxy.toml)`;
  return new UnavailableError(
    `${url}: the proxy cannot be reached (${why})${perhaps}; try again later`,
  );
}

/** The origin of this page or worker, if it is another than the proxy's. */
function otherOrigin(url: string): string | null {
  const here: string | undefined = globalThis.location?.origin;
  return here === undefined || here === new URL(url).origin ? null : here;
}

const MAX_PROBLEM = 16 * 1024;
/** What, beside every 5xx, means: the same again later. */
const LATER: readonly number[] = [408, 425, 429];

export interface Arriving {
  response: Response;
  /** Where it was asked for. */
  url: string;
  /** To be called for every piece that arrived. */
  alive: () => void;
}

/** The body, given up as soon as it is longer than `most`: it is never held in memory then. */
async function readCapped(arriving: Arriving, most: number): Promise<Uint8Array> {
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
async function problemType(arriving: Arriving): Promise<unknown> {
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

/** Seconds from now; a number of seconds or a date (RFC 9110, 10.2.3), else nothing. */
function secondsToWait(header: string | null, now: number): number | undefined {
  const text = header ?? "";
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : Date.parse(text) / 1000 - now;
  return Number.isFinite(seconds) && seconds > 0 ? seconds : undefined;
}

/** Gives a request up when nothing has come for so many seconds, or when its sender no longer wants it. */
class Watch {
  readonly #controller = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly patience: number,
    sender: AbortSignal | null | undefined,
  ) {
    const abort = () => this.#controller.abort(sender?.reason);
    if (sender?.aborted) abort();
    sender?.addEventListener("abort", abort, { signal: this.signal });
    this.alive();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

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
