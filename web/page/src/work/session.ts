/**
 * One open client and all that the page shows of it. It runs on the page's own thread and computes
 * nothing: the client's two workers and the desk do.
 */
import {
  type Client,
  spent as exactly,
  type LeftDevice,
  type News,
  type Recommendation,
  type Terms,
} from "sottovoce-client";
import { hex } from "../hex.js";
import type {
  Advice,
  Answers,
  Ask,
  Event,
  Film,
  Found,
  Request,
  RequestOf,
  State,
} from "../messages.js";
import { stateLine } from "../sentences.js";
import { toFilm } from "../titles.js";
import type { DeskCalls } from "./desk.js";
import { Failed, troubleOf } from "./trouble.js";

const ADVICE = 10;
const SUGGESTIONS = 12;
const FOUND = 10;
/** Of what speaks for a film: less is 0% in words, and no reason. */
const LEAST_SHARE = 0.005;
/** Whoever has chosen so many has found the way. */
const ENOUGH = 3;

/** Asks the desk. */
export type AskDesk = <Name extends keyof DeskCalls>(
  name: Name,
  ...given: Parameters<DeskCalls[Name]>
) => Promise<Awaited<ReturnType<DeskCalls[Name]>>>;

/** What a session needs of a client. */
export type Used = Pick<
  Client,
  | "record"
  | "remove"
  | "touched"
  | "recommend"
  | "popular"
  | "catalogue"
  | "accept"
  | "pause"
  | "setLimit"
  | "forget"
>;

type Shelf = Pick<State, "films" | "advice" | "suggestions" | "searchable">;

/** Everything that happens between the page and its workers. */
export class Session {
  #news: News | null = null;
  #shelf: Shelf = { films: [], advice: [], suggestions: [], searchable: false };
  /** Chosen once for a catalogue, so that they do not change under a finger. */
  #popular: { catalogue: string; films: readonly Film[] } = { catalogue: "", films: [] };
  /** The model that the shelf is of; null as long as nothing is on it. */
  #shownModel: string | null = null;
  #shownBatch = "";
  #filling: Promise<void> = Promise.resolve();

  constructor(
    private readonly client: Used,
    private readonly desk: AskDesk,
    private readonly tell: (event: Event) => void,
    /** Unix seconds. */
    private readonly clock: () => number,
  ) {}

  /** Does what the page asks for; what fails has words. */
  readonly ask: Ask = async <K extends Request["kind"]>(request: RequestOf<K>) => {
    try {
      return (await this.#answer(request)) as Answers[K];
    } catch (error) {
      throw new Failed(troubleOf(error));
    }
  };

  /** The network's worker says where things stand. */
  async hear(news: News): Promise<void> {
    this.#news = news;
    const model = news.manifest === null ? "" : `${news.epoch} ${hex(news.manifest.catalogue)}`;
    const before = this.#shownModel;
    this.#shownModel = model;
    if (before !== null) this.#publish(); // an empty shelf is shown to nobody
    this.#tellBatch(news.lastBatch);
    if (model !== before) await this.#fill();
  }

  async #answer(request: Request): Promise<Answers[Request["kind"]]> {
    switch (request.kind) {
      case "search":
        return this.#search(request.text);
      case "add":
        await this.client.record([request.id]);
        await this.#fill();
        return null;
      case "remove":
        await this.client.remove([request.id]);
        await this.#fill();
        return null;
      case "agree":
        return this.#agree(request.terms, request.limit);
      case "takePart":
        await this.client.pause(!request.on);
        return null;
      case "setLimit":
        await this.client.setLimit(request.limit);
        return null;
      case "acceptTerms":
        await this.client.accept(request.terms);
        return null;
      case "forget":
        return this.#forget();
    }
  }

  /** A yes to what was shown: to that and no more, up to a limit; then to begin. */
  async #agree(terms: Terms, limit: number): Promise<null> {
    await this.client.accept(terms);
    await this.client.setLimit(limit);
    await this.client.pause(false);
    return null;
  }

  /** Deletes what tells of the owner, and stops taking part. */
  async #forget(): Promise<null> {
    await this.client.pause(true);
    await this.client.forget();
    await this.#fill();
    return null;
  }

  async #search(text: string): Promise<Found[]> {
    const films = await this.desk("search", text, FOUND);
    const seen = new Set(this.#shelf.films.map(({ id }) => id));
    return films.map((film) => ({ ...film, seen: seen.has(film.id) }));
  }

  /** What was seen, and what follows from it: one after the other, the last word is the newest. */
  #fill(): Promise<void> {
    this.#filling = this.#filling.then(async () => {
      try {
        this.#shelf = await this.#filled();
        this.#publish();
      } catch (error) {
        this.#publish(troubleOf(error));
      }
    });
    return this.#filling;
  }

  async #filled(): Promise<Shelf> {
    const films = (await this.client.touched()).map(toFilm);
    const { manifest } = this.#news ?? { manifest: null };
    if (manifest === null) return { films, advice: [], suggestions: [], searchable: false };
    const popular = await this.#popularOf(hex(manifest.catalogue));
    const seen = new Set(films.map(({ id }) => id));
    const suggestions = popular.filter(({ id }) => films.length < ENOUGH && !seen.has(id));
    const advice = films.length === 0 ? [] : await this.client.recommend(ADVICE);
    return { films, advice: advice.map(adviceOf), suggestions, searchable: true };
  }

  /** And whoever searches has the new catalogue. */
  async #popularOf(catalogue: string): Promise<readonly Film[]> {
    if (this.#popular.catalogue !== catalogue) {
      const films = (await this.client.popular(SUGGESTIONS)).map(toFilm);
      await this.desk("catalogue", catalogue, await this.client.catalogue());
      this.#popular = { catalogue, films };
    }
    return this.#popular.films;
  }

  #tellBatch(batch: LeftDevice | null): void {
    const shown = batch === null ? "" : `${batch.epoch} ${batch.state}`;
    if (shown === this.#shownBatch) return;
    this.#shownBatch = shown;
    this.tell({ kind: "batch", batch });
  }

  #publish(trouble: State["trouble"] = null): void {
    const news = this.#news;
    if (news === null) return;
    const { manifest, offer, lastBatch: batch, plan, synced, sentAt } = news;
    const standing = { manifest, agreed: news.terms !== null, takingPart: !news.paused };
    const line = stateLine({ ...standing, batch, plan, synced, sentAt, now: this.clock() });
    const failed = news.error && troubleOf(news.error);
    const { epochs, spent, limit } = news;
    const budget = { epochs, spent, limit, gone: exactly(news.charges) };
    const state = { ...standing, offer, asked: news.asked, ...budget, line, ...this.#shelf };
    this.tell({ kind: "state", state: { ...state, trouble: trouble ?? failed } });
  }
}

function adviceOf(item: Recommendation): Advice {
  const because = item.because
    .filter(({ share }) => share > LEAST_SHARE)
    .map((reason) =>
      reason.kind === "item"
        ? { kind: "film" as const, film: toFilm({ ...reason, tags: {} }) }
        : { kind: "tag" as const, tag: reason.tag, name: reason.name },
    );
  return { ...toFilm(item), because };
}
