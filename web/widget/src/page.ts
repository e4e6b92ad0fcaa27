/**
 * The state that all elements of a page share: one client, its last news, and the items to show and
 * to hide.
 *
 * Only the client makes requests to the proxy, at its own moments. Nothing here causes a request.
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
import { getDatabaseName, listOthers, noteService } from "./services.js";
import { chooseTexts, type LocalizedTexts, type NumberWords, type Texts } from "./texts.js";
import { createStarter } from "./worker.js";

/** The options that a page sets once. */
export interface Options {
  /** Address of the proxy: https://HOST. */
  proxy: string;
  /** Verification key of the server: 64 hexadecimal digits. */
  key: string;
  /** Maximum epsilon that a visitor's device spends. */
  limit: number;
  /**
   * Address of a copy of `sottovoce-worker.js` on the page's own origin. Default: the copy inside
   * this script.
   */
  worker?: string;
  /** Token maker, for services that require accounts: `createTokenMaker(attest)` of `accounts.js`. */
  tokenMaker?: ClientOptions["tokenMaker"];
  /** Language of the texts. Default: the language of each element, then English. */
  lang?: string;
  /** Texts that replace some built-in texts of the language. */
  texts?: Partial<Texts>;
  /**
   * Words for numbers in reasons, by kind of tag: `{ price: { name: "Price", style: "currency",
   * currency: "EUR" } }`. Without an entry, the name is the kind.
   */
  numbers?: Readonly<Record<string, NumberWords>>;
}

/** The part of a client that the widget uses. */
export type PageClient = Pick<
  Client,
  | ("record" | "listTouched" | "recommend" | "listSimilar" | "score")
  | ("accept" | "withdraw" | "pause" | "forget" | "summarize" | "close")
>;
/** A dialog that a visitor opened by a button. */
export type Dialog = "asking" | "forgetting" | null;
/** What an element displays: nothing, a question, or the text with this name. */
export type DisplayState =
  | ("nothing" | "asking" | "forgetting")
  | ("notParticipating" | "takesPart" | "noToken" | "paused" | "termsChanged" | "allSpent");
/** A question to the visitor: whether to accept the terms of an offer, up to a limit of epsilon. */
export interface Question {
  readonly offer: Offer;
  readonly limit: number;
}
type OpenClient = (options: ClientOptions) => Promise<PageClient>;

/** Maximum number of items that a client lists. */
const MAX_LIST_ITEMS = 1000;
/** Key of `localStorage` for the terms that the visitor refused last. */
const REFUSED_TERMS_KEY = "sottovoce-answered";

/** The state that all elements share. */
export class Page extends EventTarget {
  news: News | null = null;
  /** Error with which the client could not be opened, or null. */
  #failure: unknown = null;
  #options: Partial<Options> = {};
  #hiddenIds = new Set<string>();
  #uncheckedIds = new Set<string>();
  #clientPromise: Promise<PageClient> | null = null;
  /** Made once: a page with Trusted Types allows one policy of its name. */
  #startWorker: () => Worker = createStarter();
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

  /** The reason why nothing can be listed: the client is not open, or its last look failed. */
  get error(): unknown {
    return this.#failure ?? this.news?.error ?? null;
  }

  /**
   * Set options. The client is opened as soon as proxy, key and limit are known; texts may follow
   * later.
   */
  start(options: Partial<Options>): void {
    this.#options = { ...this.#options, ...options };
    const { proxy, key, limit, worker, tokenMaker } = this.#options;
    if (
      this.#clientPromise === null &&
      proxy !== undefined &&
      key !== undefined &&
      limit !== undefined
    ) {
      const news = (message: News) => this.#handleNews(message);
      this.#startWorker = createStarter(worker);
      this.#clientPromise = this.open({
        ...{ proxy, key, limit, news, tokenMaker },
        name: getDatabaseName(key),
        worker: this.#startWorker,
      });
      this.#resolveClient(this.#clientPromise);
      this.#clientPromise.catch((error) => this.#fail(error));
    }
    this.#notify();
  }

  /** Record on this device that the visitor saw these items. */
  async markSeen(...ids: readonly string[]): Promise<void> {
    await (await this.#client).record(ids);
    for (const id of ids) this.#uncheckedIds.add(id);
    await this.#warnAboutUnknown();
    this.#notify();
  }

  /** Leave these items out of all lists, until the next call. */
  hide(ids: Iterable<string>): void {
    this.#hiddenIds = new Set(ids);
    this.#notify();
  }

  /** Return the n best items that are not hidden; null while there is no model. */
  recommend(n: number): Promise<Recommendation[] | null> {
    return this.#list(n, (client, all) => client.recommend(all));
  }

  /** Return the n items most like one item that are not hidden; null while there is no model. */
  listSimilar(id: string, n: number): Promise<Recommendation[] | null> {
    return this.#list(n, (client, all) => client.listSimilar(id, all));
  }

  async #list(
    n: number,
    find: (client: PageClient, all: number) => Promise<Recommendation[]>,
  ): Promise<Recommendation[] | null> {
    if (this.news?.manifest == null) return null;
    try {
      const all = Math.min(n + this.#hiddenIds.size, MAX_LIST_ITEMS);
      const items = await find(await this.#client, all);
      return items.filter(({ id }) => !this.#hiddenIds.has(id)).slice(0, n);
    } catch (error) {
      if (error instanceof StoreError) return null; // the model was deleted meanwhile
      throw error;
    }
  }

  /** Return the scores of items for this visitor. */
  async score(ids: readonly string[]): Promise<(number | null)[]> {
    return (await this.#client).score(ids);
  }

  /**
   * Return what to display: a question, if there are terms that were neither accepted nor refused,
   * or a state.
   */
  findState(dialog: Dialog): DisplayState {
    if (this.news === null) return "nothing";
    const { terms, paused, epochs, remainingEpsilon, lastSync } = this.news;
    if (dialog === "forgetting") return dialog;
    if (terms !== null && paused) return "paused";
    const { question } = this;
    if (question !== null) {
      if (dialog === "asking" || !this.#isRefused(question.offer)) return "asking";
      return terms === null ? "notParticipating" : "termsChanged";
    }
    // After `forget` there is no model for some seconds.
    if (terms === null) return this.news.epoch === null ? "nothing" : "notParticipating";
    const isSpent = epochs >= terms.epochs || remainingEpsilon < terms.epsilon * terms.reports;
    if (isSpent) return "allSpent";
    return lastSync?.outcome === "no token" ? "noToken" : "takesPart";
  }

  /** Epsilon that this browser has spent with other services of this site. */
  get otherEpsilon(): number {
    const others = this.#listOthers();
    return others.reduce((sum, [, { spentEpsilon }]) => sum + spentEpsilon, 0);
  }

  /** The question to display: an offer and a limit; null if there is nothing to ask. */
  get question(): Question | null {
    if (this.news === null) return null;
    const { offer, newOffer, terms, limit } = this.news;
    // A first yes counts up to the limit in the options; a later one keeps the limit that was
    // accepted.
    if (terms === null) return offer && { offer, limit: this.#options.limit ?? limit };
    return newOffer && { offer: newOffer, limit };
  }

  /**
   * Compute the figures of a question. This takes some tenths of a second, so it is done only for a
   * displayed question.
   */
  async summarize({ offer, limit }: Question): Promise<PromiseSummary> {
    return (await this.#client).summarize(offer.terms, limit);
  }

  /**
   * Accept exactly the terms and the limit of a displayed question. Return whether they were
   * accepted.
   */
  async accept({ offer, limit }: Question): Promise<boolean> {
    const client = await this.#client;
    try {
      await client.accept(offer.terms, limit);
    } catch (error) {
      // The terms have changed meanwhile. The next news contain the new question.
      if (!(error instanceof SettingsError)) throw error;
      console.warn(`sottovoce: ${error.message}`);
      return false;
    }
    if (this.news?.paused) await client.pause(false);
    return true;
  }

  /** Refuse terms. The visitor is not asked about the same terms again. */
  refuse({ terms }: Pick<Offer, "terms">): void {
    try {
      this.storage().setItem(REFUSED_TERMS_KEY, JSON.stringify(terms));
    } catch {
      // Without storage, the visitor is asked again at the next visit.
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
   * Withdraw the consent, then delete the visitor's data: nothing more may leave meanwhile. The same
   * for all other services of this site, without any request.
   *
   * The question does not appear again by itself.
   */
  async forget(): Promise<void> {
    const client = await this.#client;
    await client.withdraw();
    const asked = this.news?.newOffer ?? this.news?.manifest;
    if (asked) this.refuse(asked);
    await client.forget();
    for (const [key, { proxy }] of this.#listOthers()) {
      const other = await this.open({
        ...{ proxy, key, limit: 0, offline: true },
        name: getDatabaseName(key),
        worker: this.#startWorker,
      });
      await other.withdraw();
      await other.forget();
      other.close();
    }
  }

  #listOthers() {
    try {
      return listOthers(this.storage(), this.#options.key ?? "");
    } catch {
      return []; // without storage, no other service was noted
    }
  }

  #noteService({ proxy, spentEpsilon }: News): void {
    try {
      noteService(this.storage(), this.#options.key ?? "", { proxy, spentEpsilon });
    } catch {
      // Without storage, the database is the only record.
    }
  }

  /**
   * Return the texts for an element. For an element in the shadow root of another element, the
   * language of the document counts.
   */
  chooseWords(element: Element): LocalizedTexts {
    const near = element.closest<HTMLElement>("[lang]")?.lang;
    const lang = this.#options.lang ?? (near || document.documentElement.lang);
    return chooseTexts(lang, this.#options.texts, this.#options.numbers);
  }

  /** Update the elements if another tab has refused terms. */
  handleStorage({ key }: { key: string | null }): void {
    if (key === REFUSED_TERMS_KEY) this.#notify();
  }

  async #handleNews(news: News): Promise<void> {
    const { message } = news.error ?? {};
    if (message !== undefined && message !== this.news?.error?.message)
      console.warn(`sottovoce: ${message}`); // only once, because every look repeats it
    this.news = news;
    this.#noteService(news);
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
    this.#failure = error;
    this.#notify();
  }

  #notify(): void {
    this.dispatchEvent(new Event("change"));
  }
}
