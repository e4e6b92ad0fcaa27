/**
 * One open client and all that the page shows of it. It runs on the page's own thread and computes
 * nothing: the client's workers and the desk do.
 */

import {
  type Client,
  spent as exactly,
  type LeftDevice,
  type Manifest,
  type News,
  type Recommendation,
  RefusedError,
  StoreError,
  type Terms,
  TermsError,
  UnavailableError,
  UntrustedError,
} from "sottovoce-client";
import type { Ask as Calling } from "sottovoce-client/workers";
import type { DeskCalls } from "./desk.js";
import type { Advice, Event, Film, Found, State, Trouble } from "./state.js";
import { toFilm } from "./titles.js";
import { hex, stateLine } from "./words.js";

/** Does something with the session. Where it is a choice of the owner's that goes well, earlier trouble is over. */
export type Ask = <Result>(
  work: (session: Session) => Promise<Result>,
  isChoice?: boolean,
) => Promise<Result>;

const ADVICE = 10;
const SUGGESTIONS = 12;
/** Whose order the search knows; the client lists no more. */
const BEST_KNOWN = 1000;
const FOUND = 10;
/** Of what speaks for a film: less is 0% in words, and no reason. */
const LEAST_SHARE = 0.005;
/** Whoever has chosen so many has found the way. */
const ENOUGH = 3;

type Shelf = Pick<State, "films" | "advice" | "whispers" | "suggestions" | "searchable">;
const EMPTY: Shelf = { films: [], advice: [], whispers: true, suggestions: [], searchable: false };

/** Everything that happens between the page and its workers. */
export class Session {
  #news: News | null = null;
  #shelf = EMPTY;
  #whispers = true;
  /** Chosen once for a catalogue, so that they do not change under a finger. */
  #popular = { catalogue: "", model: "", films: [] as readonly Film[] };
  /** The model that the shelf is of; null as long as nothing is on it. */
  #shownModel: string | null = null;
  #shownBatch = "";
  #filling: Promise<void> = Promise.resolve();

  constructor(
    private readonly client: Omit<Client, "close">,
    private readonly desk: Calling<DeskCalls>,
    private readonly tell: (event: Event) => void,
    /** Unix seconds. */
    private readonly clock: () => number,
  ) {}

  /** The network's worker says where things stand. */
  async hear(news: News): Promise<void> {
    this.#news = news;
    const model = news.manifest === null ? "" : `${news.epoch} ${news.catalogue}`;
    const before = this.#shownModel;
    this.#shownModel = model;
    if (before !== null) this.#publish(); // an empty shelf is shown to nobody
    this.#tellBatch(news.lastBatch);
    if (model !== before) await this.#fill();
  }

  async add(id: string): Promise<void> {
    await this.client.record([id]);
    await this.#fill();
  }

  async remove(id: string): Promise<void> {
    await this.client.remove([id]);
    await this.#fill();
  }

  /** Lists from the model, or from tags alone. */
  async listen(whispers: boolean): Promise<void> {
    this.#whispers = whispers;
    await this.#fill();
  }

  /** A yes to what was shown: to that and no more, up to a limit; then to begin. */
  async agree(terms: Terms, limit: number): Promise<void> {
    await this.acceptTerms(terms, limit);
    await this.client.pause(false);
  }

  takePart(on: boolean): Promise<void> {
    return this.client.pause(!on);
  }

  setLimit(limit: number): Promise<void> {
    return this.client.setLimit(limit);
  }

  /** The limit first, whose sentences were displayed: another tab may have set a larger one meanwhile. */
  async acceptTerms(terms: Terms, limit: number): Promise<void> {
    await this.client.setLimit(limit);
    await this.client.accept(terms);
  }

  /** Deletes what tells of the owner, and stops taking part. */
  async forget(): Promise<void> {
    await this.client.pause(true);
    await this.client.forget();
    await this.#fill();
  }

  /** What the owner is asked, up to a limit. */
  short(terms: Terms, limit: number): Promise<string[]> {
    return this.desk("short", terms, this.#news?.charges ?? [], limit);
  }

  async search(text: string): Promise<Found[]> {
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
    if (manifest === null) return { ...EMPTY, films };
    const popular = await this.#popularOf(manifest);
    const seen = new Set(films.map(({ id }) => id));
    const suggestions = popular.filter(({ id }) => films.length < ENOUGH && !seen.has(id));
    const [whispers, byTagsAlone] = [this.#whispers, !this.#whispers];
    const advice = films.length === 0 ? [] : await this.client.recommend(ADVICE, { byTagsAlone });
    return { films, advice: advice.map(adviceOf), whispers, suggestions, searchable: true };
  }

  /** And whoever searches has the new catalogue, and knows what is known best. */
  async #popularOf({ model: file, reportsBehind }: Manifest) {
    const [catalogue, model] = [this.#news?.catalogue ?? "", hex(file)];
    if (this.#popular.catalogue !== catalogue || this.#popular.model !== model) {
      const best = await this.client.popular(BEST_KNOWN);
      if (this.#popular.catalogue !== catalogue) {
        await this.desk("catalogue", catalogue, await this.client.catalogue());
        this.#popular.films = best.slice(0, SUGGESTIONS).map(toFilm);
      }
      await this.desk("popular", reportsBehind > 0 ? best.map(({ id }) => id) : []);
      this.#popular = { catalogue, model, films: this.#popular.films };
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
    const turnsLeft = offer?.turns ?? null;
    const line = stateLine({
      ...standing,
      turnsLeft,
      batch,
      plan,
      synced,
      sentAt,
      now: this.clock(),
    });
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

const LOOKS_AGAIN =
  "The page looks again by itself; if this stays, tell whoever runs this address.";
const GOES_ON = "Recommendations go on with the last model that could be trusted.";

/** Every error has words; which ones depends on what it means for the data here. */
export function troubleOf(error: unknown): Trouble {
  const said = error instanceof Error ? error.message : String(error);
  if (error instanceof TermsError) return otherTerms(error);
  if (error instanceof UntrustedError) return untrusted(said);
  if (error instanceof UnavailableError) return trouble("unavailable", unavailable(said));
  if (error instanceof RefusedError) {
    return trouble("refused", `${sentence(said)} Nothing of yours was lost; what waits is kept.`);
  }
  if (error instanceof StoreError) return trouble("storage", sentence(said));
  return trouble("storage", `Something went wrong on this device: ${sentence(said)}`);
}

function otherTerms({ worse, asked }: TermsError): Trouble {
  const text = `They are not those that you accepted. No report is made under them. ${GOES_ON}`;
  return { kind: "terms", text, terms: { worse: worse.map(sentence), asked } };
}

function untrusted(said: string): Trouble {
  // The same sync may have sent a batch that an earlier one left behind.
  const nothing = /no\s+report is made/iu.test(said) ? "" : " No report is made of it.";
  return trouble("untrusted", `${sentence(said)}${nothing} ${GOES_ON} ${LOOKS_AGAIN}`);
}

/** The page tries again by itself, and the browser's own words for it help nobody. */
function unavailable(said: string): string {
  const what = said.replace(/ \([^()]*\)|; try again later/gu, "");
  return `${sentence(what)} Recommendations go on, nothing is sent meanwhile.`;
}

function trouble(kind: Trouble["kind"], text: string): Trouble {
  return { kind, text, terms: null };
}

/** With a capital in front and a full stop behind, and without the address that was asked. */
export function sentence(said: string): string {
  const text = said.trim().replace(/^https?:\S+: /u, "");
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/u.test(capital) ? capital : `${capital}.`;
}
