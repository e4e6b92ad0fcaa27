/**
 * A session: one open client, and everything that the page shows of it.
 *
 * This code runs on the page's own thread and computes nothing: the client's workers and the desk
 * do that.
 */

import {
  type Client,
  formatSummary,
  hasModel,
  type LeftDevice,
  type Manifest,
  type News,
  type Recommendation,
  sumCharges,
  type Terms,
} from "sottovoce-client";
import type { Ask as Calling } from "sottovoce-client/workers";
import { ListComparison } from "./comparison.js";
import type { DeskCalls } from "./desk.js";
import { chooseReasons } from "./reasons.js";
import { formatReportState } from "./reporting.js";
import type { Advice, Event, Film, SearchResult, State } from "./state.js";
import { toFilm } from "./titles.js";
import { toSentence, toTrouble } from "./trouble.js";
import { toHex } from "./words.js";

/**
 * Runs `work` with the session. If `isChoice` is not false and it succeeds, the trouble of earlier
 * choices is removed.
 */
export type Ask = <Result>(
  work: (session: Session) => Promise<Result>,
  isChoice?: boolean,
) => Promise<Result>;

const ADVICE_FILMS = 10;
const SUGGESTED_FILMS = 12;
/** The search sorts by this number of popular films. It is the maximum that the client lists. */
const MAX_RANKED_FILMS = 1000;
const MAX_SEARCH_RESULTS = 10;
/** With this number of chosen films or more, no films are suggested. */
const MAX_FILMS_WITH_SUGGESTIONS = 3;

type Shelf = Pick<State, "films" | "advice" | "whispers" | "suggestions" | "searchable">;
const EMPTY_SHELF: Shelf = {
  films: [],
  advice: [],
  whispers: true,
  suggestions: [],
  searchable: false,
};

/** Connects the page with its client and its desk. */
export class Session {
  #news: News | null = null;
  #shelf = EMPTY_SHELF;
  #whispers = true;
  /**
   * Suggestions. They are chosen once for each catalogue, so that they do not change while somebody
   * is about to press one.
   */
  #popular = { catalogue: "", model: "", films: [] as readonly Film[] };
  /** Epoch and catalogue from which the shelf was made; null before the first news. */
  #shownModel: string | null = null;
  #shownBatch = "";
  readonly #comparison = new ListComparison();
  #listChange: State["listChange"] = null;
  #lastFill: Promise<void> = Promise.resolve();

  constructor(
    private readonly client: Omit<Client, "close">,
    private readonly desk: Calling<DeskCalls>,
    private readonly send: (event: Event) => void,
    /** Returns Unix seconds. */
    private readonly clock: () => number,
    /** Tells the other tabs that the films have changed. */
    private readonly notifyTabs: () => void,
  ) {}

  /** Epsilon that this device has spent with this server. */
  get spentEpsilon(): number {
    return this.#news?.spentEpsilon ?? 0;
  }

  /**
   * Handle the client's news, and make the lists again if the model or the catalogue has changed.
   */
  async handleNews(news: News): Promise<void> {
    this.#news = news;
    const model = news.manifest === null ? "" : `${news.epoch} ${news.catalogue}`;
    const previous = this.#shownModel;
    this.#shownModel = model;
    if (previous !== null) this.#publish(); // before the first news, the shelf is empty and not displayed
    this.#sendBatch(news.lastBatch);
    if (model !== previous) await this.#fill();
    if (news.sentAt !== null && news.manifest !== null && this.#shelf.whispers)
      this.#comparison.begin(news.manifest.epoch, this.#shelf);
  }

  /**
   * Add a film. The order in which somebody remembers films says nothing about them, so films have
   * no order.
   */
  async add(id: string): Promise<void> {
    await this.client.record([id], { ordered: false });
    await this.#changeFilms();
  }

  async remove(id: string): Promise<void> {
    await this.client.remove([id]);
    await this.#changeFilms();
  }

  /** Read the films again, after another tab has changed them. This makes no requests. */
  handleTab(): Promise<void> {
    return this.#fill();
  }

  /** Set whether lists come from the model or from tags alone. */
  async setWhispers(whispers: boolean): Promise<void> {
    this.#whispers = whispers;
    await this.#fill();
  }

  /** Accept the terms that were displayed, up to a limit, and start to take part. */
  async acceptAndStart(terms: Terms, limit: number): Promise<void> {
    await this.acceptTerms(terms, limit);
    await this.client.pause(false);
  }

  setTakingPart(on: boolean): Promise<void> {
    return this.client.pause(!on);
  }

  setLimit(limit: number): Promise<void> {
    return this.client.setLimit(limit);
  }

  /** Accept exactly the terms and the limit whose sentences were displayed. */
  acceptTerms(terms: Terms, limit: number): Promise<void> {
    return this.client.accept(terms, limit);
  }

  /** Withdraw the consent, and delete everything about the owner. */
  async forget(): Promise<void> {
    await this.client.withdraw();
    await this.client.forget();
    this.#comparison.clear();
    await this.#changeFilms();
  }

  /** Return the sentences that ask the owner to accept the terms with this limit. */
  async summarize(terms: Terms, limit: number): Promise<string[]> {
    return formatSummary(await this.client.summarize(terms, limit));
  }

  async search(text: string): Promise<SearchResult[]> {
    const films = await this.desk("search", text, MAX_SEARCH_RESULTS);
    const seen = new Set(this.#shelf.films.map(({ id }) => id));
    return films.map((film) => ({ ...film, seen: seen.has(film.id) }));
  }

  #changeFilms(): Promise<void> {
    this.notifyTabs();
    return this.#fill();
  }

  /**
   * Make the lists again, after earlier calls are finished, so that the last lists are the newest.
   */
  #fill(): Promise<void> {
    this.#lastFill = this.#lastFill.then(async () => {
      try {
        this.#shelf = await this.#makeShelf();
        const epoch = this.#news?.manifest?.epoch ?? 0;
        // A list by tags alone is another list, and does not depend on reports.
        if (this.#shelf.whispers || this.#shelf.advice.length === 0)
          this.#listChange = this.#comparison.compare(epoch, this.#shelf);
        this.#publish();
      } catch (error) {
        this.#publish(toTrouble(error));
      }
    });
    return this.#lastFill;
  }

  async #makeShelf(): Promise<Shelf> {
    const films = (await this.client.listTouched()).map(toFilm);
    const { manifest } = this.#news ?? { manifest: null };
    if (manifest === null) return { ...EMPTY_SHELF, films };
    const popular = await this.#updatePopular(manifest);
    const seen = new Set(films.map(({ id }) => id));
    const suggestions = popular.filter(
      ({ id }) => films.length < MAX_FILMS_WITH_SUGGESTIONS && !seen.has(id),
    );
    const [whispers, tagsOnly] = [this.#whispers, !this.#whispers];
    const advice =
      films.length === 0 ? [] : await this.client.recommend(ADVICE_FILMS, { tagsOnly });
    return { films, advice: toAdvice(advice), whispers, suggestions, searchable: true };
  }

  /**
   * Return the suggestions. If the catalogue or the model is new, pass its films and their order to
   * the search.
   */
  async #updatePopular(manifest: Manifest) {
    const [catalogue, model] = [this.#news?.catalogue ?? "", toHex(manifest.model)];
    if (this.#popular.catalogue !== catalogue || this.#popular.model !== model) {
      const best = await this.client.listPopular(MAX_RANKED_FILMS);
      if (this.#popular.catalogue !== catalogue) {
        await this.desk("setCatalogue", catalogue, await this.client.listItems());
        this.#popular.films = best.slice(0, SUGGESTED_FILMS).map(toFilm);
      }
      await this.desk("setPopular", hasModel(manifest) ? best.map(({ id }) => id) : []);
      this.#popular = { catalogue, model, films: this.#popular.films };
    }
    return this.#popular.films;
  }

  #sendBatch(batch: LeftDevice | null): void {
    const current = batch === null ? "" : `${batch.epoch} ${batch.state}`;
    if (current === this.#shownBatch) return;
    this.#shownBatch = current;
    this.send({ kind: "batch", batch });
  }

  #publish(trouble: State["trouble"] = null): void {
    const news = this.#news;
    if (news === null) return;
    const { manifest, offer, lastBatch: batch, plan, lastSync, sentAt } = news;
    const participation = { manifest, agreed: news.terms !== null, takingPart: !news.paused };
    const turnsLeft = offer?.turns ?? null;
    const reportState = formatReportState({
      ...participation,
      turnsLeft,
      batch,
      plan,
      lastSync,
      sentAt,
      now: this.clock(),
    });
    const lookTrouble = news.error && toTrouble(news.error);
    const { epochs, spentEpsilon, limit, charges } = news;
    const budget = { epochs, spentEpsilon, limit, charges, spentAmount: sumCharges(charges) };
    const offers = { offer, newOffer: news.newOffer, worse: news.worse.map(toSentence) };
    const reporting = { reportState, listChange: this.#listChange };
    const state = { ...participation, ...offers, ...budget, ...reporting, ...this.#shelf };
    this.send({ kind: "state", state: { ...state, trouble: trouble ?? lookTrouble } });
  }
}

function toAdvice(list: readonly Recommendation[]): Advice[] {
  const reasons = chooseReasons(list);
  return list.map((item, at) => ({ ...toFilm(item), reason: reasons[at] ?? null }));
}
