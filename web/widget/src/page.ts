/**
 * What all elements of a page share: one client, its last news, and what the page shows and hides.
 *
 * Only the client speaks to the proxy, at moments of its own; nothing here makes it ask.
 */

import {
  Client,
  type ClientOptions,
  type News,
  type Offer,
  type PromiseSummary,
  type Recommendation,
  SettingsError,
  StoreError,
} from "sottovoce-client";
import { chooseTexts, type LocalizedTexts, type Texts } from "./texts.js";
import { createStarter } from "./worker.js";

/** The options that a page sets once. */
export interface Options {
  /** Address of the proxy: https://HOST. */
  proxy: string;
  /** Verification key of the server: 64 hexadecimal digits. */
  key: string;
  /** The most epsilon that a visitor's device spends. */
  limit: number;
  /**
   * Address of a copy of `sottovoce-worker.js` on the page's own origin. Default: the one in this
   * file.
   */
  worker?: string;
  /** For services that ask for accounts: `createAccount(attest)` of `accounts.js`. */
  account?: ClientOptions["account"];
  /** Language. Default: that of each element, then English. */
  lang?: string;
  /** Texts that replace those of the language. */
  texts?: Partial<Texts>;
}

/** The part of a client that the widget uses. */
export type PageClient = Pick<
  Client,
  "record" | "listTouched" | "recommend" | "accept" | "withdraw" | "pause" | "forget" | "summarize"
>;
/** A dialog that a visitor opened by a button. */
export type Dialog = "asking" | "forgetting" | null;
/** What is displayed: nothing, a question, or the text of this name. */
export type DisplayState =
  | ("nothing" | "asking" | "forgetting")
  | ("notParticipating" | "takesPart" | "noToken" | "paused" | "waits" | "over");
/** A question: the terms of an offer, up to a limit. */
export interface Question {
  readonly offer: Offer;
  readonly limit: number;
}
type OpenClient = (options: ClientOptions) => Promise<PageClient>;

/** Most items that a client lists. */
const MAX_LIST_ITEMS = 1000;
/** Key under which this browser stores the terms that the visitor refused last. */
const REFUSED_TERMS_KEY = "sottovoce-answered";

/** The state that all elements share. */
export class Page extends EventTarget {
  news: News | null = null;
  /** Whether the client could not be opened. */
  hasFailed = false;
  #options: Partial<Options> = {};
  #hiddenIds = new Set<string>();
  #uncheckedIds = new Set<string>();
  #clientPromise: Promise<PageClient> | null = null;
  #resolveClient!: (client: Promise<PageClient>) => void;
  readonly #client = new Promise<PageClient>((resolve) => {
    this.#resolveClient = resolve;
  });

  constructor(
    private readonly open: OpenClient = (options) => Client.open(options),
    private readonly storage: () => Pick<Storage, "getItem" | "setItem"> = () => localStorage,
  ) {
    super();
  }

  /** Whether there is no model, and the last look says why. */
  get hasTrouble(): boolean {
    return this.news?.manifest === null && this.news.error !== null;
  }

  /** Set options, and open the client as soon as they name the proxy; texts may come later. */
  start(options: Partial<Options>): void {
    this.#options = { ...this.#options, ...options };
    const { proxy, key, limit, worker, account } = this.#options;
    if (
      this.#clientPromise === null &&
      proxy !== undefined &&
      key !== undefined &&
      limit !== undefined
    ) {
      const news = (message: News) => this.#handleNews(message);
      this.#clientPromise = this.open({
        proxy,
        key,
        limit,
        news,
        account,
        worker: createStarter(worker),
      });
      this.#resolveClient(this.#clientPromise);
      this.#clientPromise.catch((error) => this.#fail(error));
    }
    this.#notify();
  }

  /** Record, on this device, what the page shows. */
  async markSeen(...ids: readonly string[]): Promise<void> {
    await (await this.#client).record(ids);
    for (const id of ids) this.#uncheckedIds.add(id);
    await this.#warnAboutUnknown();
    this.#notify();
  }

  /** Leave these items out of lists, until others are named. */
  hide(ids: Iterable<string>): void {
    this.#hiddenIds = new Set(ids);
    this.#notify();
  }

  /** Return the n best items that are not hidden; null while there is no model. */
  async recommend(n: number): Promise<Recommendation[] | null> {
    if (this.news?.manifest == null) return null;
    const client = await this.#client;
    try {
      const all = await client.recommend(Math.min(n + this.#hiddenIds.size, MAX_LIST_ITEMS));
      return all.filter(({ id }) => !this.#hiddenIds.has(id)).slice(0, n);
    } catch (error) {
      if (error instanceof StoreError) return null; // the model was deleted meanwhile
      throw error;
    }
  }

  /**
   * Return what to display: a question about terms that were neither accepted nor refused, or a
   * state.
   */
  findState(dialog: Dialog): DisplayState {
    if (this.news === null) return "nothing";
    const { terms, paused, epochs, remainingEpsilon, lastSync } = this.news;
    if (dialog === "forgetting") return dialog;
    if (terms !== null && paused) return "paused";
    const { question } = this;
    if (question !== null) {
      if (dialog === "asking" || !this.#isRefused(question.offer)) return "asking";
      return terms === null ? "notParticipating" : "waits";
    }
    // After `forget` there is no model for some seconds.
    if (terms === null) return this.news.epoch === null ? "nothing" : "notParticipating";
    const isSpent = epochs >= terms.epochs || remainingEpsilon < terms.epsilon * terms.reports;
    if (isSpent) return "over";
    return lastSync?.outcome === "no token" ? "noToken" : "takesPart";
  }

  /** The question to display: an offer and a limit; null if there is nothing to ask. */
  get question(): Question | null {
    if (this.news === null) return null;
    const { offer, newOffer, terms, limit } = this.news;
    // A first yes is up to the limit that the page names now, a later one up to the accepted limit.
    if (terms === null) return offer && { offer, limit: this.#options.limit ?? limit };
    return newOffer && { offer: newOffer, limit };
  }

  /** Compute the figures of the question. It takes a moment, so only when somebody is asked. */
  async summarize({ offer, limit }: Question): Promise<PromiseSummary> {
    return (await this.#client).summarize(offer.terms, limit);
  }

  /** Accept exactly what was displayed. */
  async accept({ offer, limit }: Question): Promise<void> {
    const client = await this.#client;
    try {
      await client.accept(offer.terms, limit);
    } catch (error) {
      // The terms have changed meanwhile: the news that follow bring the new question.
      if (!(error instanceof SettingsError)) throw error;
      console.warn(`sottovoce: ${error.message}`);
      return;
    }
    if (this.news?.paused) await client.pause(false);
  }

  /** Refuse for now: the same terms are not asked about again. */
  refuse({ terms }: Pick<Offer, "terms">): void {
    try {
      this.storage().setItem(REFUSED_TERMS_KEY, JSON.stringify(terms));
    } catch {
      // Without storage the question comes again.
    }
    this.#notify();
  }

  #isRefused({ terms }: Offer): boolean {
    try {
      return this.storage().getItem(REFUSED_TERMS_KEY) === JSON.stringify(terms);
    } catch {
      return false;
    }
  }

  async pause(on: boolean): Promise<void> {
    await (await this.#client).pause(on);
  }

  /**
   * Take the yes back first, then delete: a visitor who wants to be forgotten wants nothing more to
   * leave. The question does not come back by itself.
   */
  async forget(): Promise<void> {
    const client = await this.#client;
    await client.withdraw();
    const { manifest = null } = this.news ?? {};
    if (manifest !== null) this.refuse(manifest);
    await client.forget();
  }

  /** Choose the language of an element; inside another shadow root, that of the document. */
  chooseWords(element: Element): LocalizedTexts {
    const near = element.closest<HTMLElement>("[lang]")?.lang;
    const lang = this.#options.lang ?? (near || document.documentElement.lang);
    return chooseTexts(lang, this.#options.texts);
  }

  /** Take in that another tab has refused terms. */
  handleStorage({ key }: { key: string | null }): void {
    if (key === REFUSED_TERMS_KEY) this.#notify();
  }

  async #handleNews(news: News): Promise<void> {
    const { message } = news.error ?? {};
    if (message !== undefined && message !== this.news?.error?.message)
      console.warn(`sottovoce: ${message}`); // warn once: the client looks again and again
    this.news = news;
    this.#notify();
    await this.#warnAboutUnknown();
  }

  /** Warn the developer of the page about ids that the catalogue does not have. */
  async #warnAboutUnknown(): Promise<void> {
    if (this.#uncheckedIds.size === 0 || this.news?.manifest == null) return;
    const ids = this.#uncheckedIds;
    this.#uncheckedIds = new Set();
    for (const { id, isKnown } of await (await this.#client).listTouched()) {
      if (ids.has(id) && !isKnown) console.warn(`sottovoce: "${id}" is not in the catalogue`);
    }
  }

  #fail(error: unknown): void {
    console.error(`sottovoce: ${error}`);
    this.hasFailed = true;
    this.#notify();
  }

  #notify(): void {
    this.dispatchEvent(new Event("change"));
  }
}
