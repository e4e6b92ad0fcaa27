/**
 * What all elements of a page share: one client, what it last said, what the page has seen and hides. The
 * client alone speaks to the proxy, at moments of its own; nothing here makes it ask.
 */

import {
  Client,
  type ClientOptions,
  type News,
  type Offer,
  type Recommendation,
  type Short,
  StoreError,
} from "sottovoce-client";
import { type Texts, type Words, wordsIn } from "./texts.js";
import { starter } from "./worker.js";

/** What a page says once. */
export interface Options {
  /** Where the proxy is: https://HOST. */
  proxy: string;
  /** The server's verification key: 64 hexadecimal digits. */
  key: string;
  /** The most epsilon that a visitor's device spends. */
  limit: number;
  /** Of a copy of `sottovoce-worker.js` on the page's own origin. Default: the one in this file. */
  worker?: string;
  /** For services that ask for accounts: `account(attest)` of `accounts.js`. */
  account?: ClientOptions["account"];
  /** Default: that of each element, then English. */
  lang?: string;
  /** Over those of the language. */
  texts?: Partial<Texts>;
}

/** What is used of a client. */
export type Used = Pick<
  Client,
  "record" | "touched" | "recommend" | "accept" | "pause" | "forget" | "short"
>;
/** What a visitor opened by a button. */
export type Opened = "asking" | "forgetting" | null;
/** What there is to show: a question, or the text of this name. */
export type Standing =
  | ("nothing" | "asking" | "forgetting")
  | ("apart" | "takesPart" | "noToken" | "paused" | "waits" | "over");
type Open = (options: ClientOptions) => Promise<Used>;

/** As many as a client lists. */
const MOST = 1000;
/** Under which name this browser keeps the terms that were last said no to. */
const ANSWERED = "sottovoce-answered";

export class Page extends EventTarget {
  news: News | null = null;
  /** Whether there is no client, and will be none. */
  hasFailed = false;
  #options: Partial<Options> = {};
  #hidden = new Set<string>();
  #unchecked = new Set<string>();
  #opening: Promise<Used> | null = null;
  #isOpening!: (client: Promise<Used>) => void;
  readonly #client = new Promise<Used>((resolve) => {
    this.#isOpening = resolve;
  });

  constructor(
    private readonly open: Open = (options) => Client.open(options),
    private readonly storage: () => Pick<Storage, "getItem" | "setItem"> = () => localStorage,
  ) {
    super();
  }

  /** Whether there is no model, and the last look says why. */
  get hasTrouble(): boolean {
    return this.news?.manifest === null && this.news.error !== null;
  }

  /** Opens the client as soon as it is said where; texts may come later. */
  start(options: Partial<Options>): void {
    this.#options = { ...this.#options, ...options };
    const { proxy, key, limit, worker, account } = this.#options;
    if (this.#opening === null && proxy !== undefined && key !== undefined && limit !== undefined) {
      const news = (told: News) => this.#hear(told);
      this.#opening = this.open({ proxy, key, limit, news, account, worker: starter(worker) });
      this.#isOpening(this.#opening);
      this.#opening.catch((error) => this.#fail(error));
    }
    this.#changed();
  }

  /** Remembers, on this device, what the page shows. */
  async seen(...ids: readonly string[]): Promise<void> {
    await (await this.#client).record(ids);
    for (const id of ids) this.#unchecked.add(id);
    await this.#check();
    this.#changed();
  }

  /** These are not listed, until others are named. */
  hide(ids: Iterable<string>): void {
    this.#hidden = new Set(ids);
    this.#changed();
  }

  /** The n best that are not hidden; null while there is no model. */
  async recommend(n: number): Promise<Recommendation[] | null> {
    if (this.news?.manifest == null) return null;
    const client = await this.#client;
    try {
      const all = await client.recommend(Math.min(n + this.#hidden.size, MOST));
      return all.filter(({ id }) => !this.#hidden.has(id)).slice(0, n);
    } catch (error) {
      if (error instanceof StoreError) return null; // it was forgotten meanwhile
      throw error;
    }
  }

  /** Asks about terms that were neither accepted nor refused, or if the visitor wants to be asked. */
  standing(opened: Opened): Standing {
    if (this.news === null) return "nothing";
    const { offer, asked, terms, paused, epochs, remaining, synced } = this.news;
    if (opened === "forgetting") return opened;
    if (terms !== null && paused) return "paused";
    const open = terms === null ? offer : asked;
    if (open !== null) {
      if (opened === "asking" || !this.#isRefused(open)) return "asking";
      return terms === null ? "apart" : "waits";
    }
    if (terms === null) return "nothing";
    const isSpent = epochs >= terms.epochs || remaining < terms.epsilon * terms.reports;
    if (isSpent) return "over";
    return synced?.outcome === "no token" ? "noToken" : "takesPart";
  }

  /** Worked out when somebody is asked, and not before: it takes a moment. */
  async short({ terms }: Offer): Promise<Short> {
    return (await this.#client).short(terms);
  }

  async accept({ terms }: Offer): Promise<void> {
    const client = await this.#client;
    await client.accept(terms);
    if (this.news?.paused) await client.pause(false);
  }

  /** No for now: the same terms are not asked about again. */
  refuse({ terms }: Offer): void {
    try {
      this.storage().setItem(ANSWERED, JSON.stringify(terms));
    } catch {
      // Without storage it is asked again.
    }
    this.#changed();
  }

  #isRefused({ terms }: Offer): boolean {
    try {
      return this.storage().getItem(ANSWERED) === JSON.stringify(terms);
    } catch {
      return false;
    }
  }

  async pause(on: boolean): Promise<void> {
    await (await this.#client).pause(on);
  }

  /** Pauses first: whoever wants to be forgotten wants nothing more to leave. */
  async forget(): Promise<void> {
    const client = await this.#client;
    await client.pause(true);
    await client.forget();
  }

  /** In the language of an element; within another one's shadow, of the document. */
  wordsFor(element: Element): Words {
    const near = element.closest<HTMLElement>("[lang]")?.lang;
    const lang = this.#options.lang ?? (near || document.documentElement.lang);
    return wordsIn(lang, this.#options.texts);
  }

  /** Another tab answered. */
  hearStorage({ key }: { key: string | null }): void {
    if (key === ANSWERED) this.#changed();
  }

  async #hear(news: News): Promise<void> {
    const { message } = news.error ?? {};
    if (message !== undefined && message !== this.news?.error?.message)
      console.warn(`sottovoce: ${message}`); // once: it looks again and again
    this.news = news;
    this.#changed();
    await this.#check();
  }

  /** Tells whoever builds the page; the visitor has nothing to do with it. */
  async #check(): Promise<void> {
    if (this.#unchecked.size === 0 || this.news?.manifest == null) return;
    const ids = this.#unchecked;
    this.#unchecked = new Set();
    for (const { id, isKnown } of await (await this.#client).touched()) {
      if (ids.has(id) && !isKnown) console.warn(`sottovoce: "${id}" is not in the catalogue`);
    }
  }

  #fail(error: unknown): void {
    console.error(`sottovoce: ${error}`);
    this.hasFailed = true;
    this.#changed();
  }

  #changed(): void {
    this.dispatchEvent(new Event("change"));
  }
}
