/** One open client, and all that the page shows of it. */
import {
  Client,
  explain,
  type LeftDevice,
  type Manifest,
  type Status,
  type Synced,
  type Terms,
} from "sottovoce-client";
import type { Advice, Event, Film, Found, RequestOf, State, Trouble } from "../messages.js";
import { stateLine } from "../sentences.js";
import { FilmShelf } from "./films.js";
import { type FetchPanel, fetchPanel, History } from "./history.js";
import { type Looked, longestPause } from "./pace.js";
import { retryAfterOf, troubleOf } from "./trouble.js";

const ADVICE = 10;
const SUGGESTIONS = 12;
const FOUND = 8;
/** Whoever has chosen so many has found her way. */
const ENOUGH = 3;

/** A sync that came to one of these may come to something else in the same epoch. */
const UNSETTLED: readonly Synced["outcome"][] = ["not open", "paused"];

/** What a session takes from the world beside its client. */
export interface SessionTools {
  /** Unix seconds. */
  clock: () => number;
  panel: FetchPanel;
}

const TOOLS: SessionTools = { clock: () => Date.now() / 1000, panel: fetchPanel };

/** Everything that happens between the page and its client. */
export class Session {
  readonly #client: Client;
  readonly #tell: (event: Event) => void;
  readonly #clock: () => number;
  readonly #shelf: FilmShelf;
  readonly #history: History;
  #trouble: Trouble | null = null;
  #failures = 0;
  #synced: Synced | null = null;
  #sentAt: { epoch: number; time: number } | null = null;
  #suggestions: readonly Film[] | null = null;
  #shownBatch = "";
  #publishing: Promise<void> = Promise.resolve();

  constructor(client: Client, tell: (event: Event) => void, tools: SessionTools = TOOLS) {
    this.#client = client;
    this.#clock = tools.clock;
    this.#tell = tell;
    this.#shelf = new FilmShelf(client);
    this.#history = new History(client, (curve) => tell({ kind: "curve", curve }), tools.panel);
  }

  /** Until she says yes there are no terms to report on, a limit of 0, and a pause. */
  static async open(request: RequestOf<"open">, tell: (event: Event) => void): Promise<Session> {
    const { proxy, key, name } = request;
    let session: Session | null = null;
    const sleep = async (seconds: number): Promise<void> => {
      await session?.publish();
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    };
    session = new Session(
      await Client.open({ proxy, key, name, limit: 0, paused: true, askFirst: true, sleep }),
      tell,
    );
    return session;
  }

  /** Remembers a film that she saw. */
  async add(id: string): Promise<void> {
    await this.#client.record([id]);
    await this.publish();
  }

  /** Forgets one. */
  async remove(id: string): Promise<void> {
    await this.#client.remove([id]);
    await this.publish();
  }

  /** She said yes to what she was shown: to that and no more, up to a limit; then to begin. */
  async agree(terms: Terms, limit: number): Promise<void> {
    await this.#client.agree(terms);
    await this.#client.setLimit(limit);
    await this.takePart(true);
  }

  /** Begins, or stops before anything else leaves. */
  async takePart(on: boolean): Promise<void> {
    await this.#client.pause(!on);
    this.#synced = null;
    await this.publish();
  }

  /** Another lifetime limit. */
  async setLimit(limit: number): Promise<void> {
    await this.#client.setLimit(limit);
    this.#synced = null;
    await this.publish();
  }

  /** She agreed to terms that are worse than before, those that she was shown. */
  async acceptTerms(terms: Terms): Promise<void> {
    await this.#client.agree(terms);
    this.#trouble = null;
    await this.publish();
  }

  /** Deletes what tells of her, and stops taking part. */
  async forget(): Promise<void> {
    await this.#client.pause(true);
    await this.#client.forget();
    this.#synced = null;
    this.#suggestions = null;
    await this.publish();
  }

  /** Films by title. */
  async search(text: string): Promise<Found[]> {
    const { manifest } = await this.#client.status();
    const films = (await this.#shelf.of(manifest)).search(text, FOUND);
    const seen = new Set(await this.#client.touched());
    return films.map((film) => ({ ...film, seen: seen.has(film.id) }));
  }

  /** Learns what is new, and takes part if it is time and she wants to. */
  async look(): Promise<Looked> {
    let retryAfter: number | null = null;
    try {
      await this.#takeALook();
      this.#trouble = null;
      this.#failures = 0;
    } catch (error) {
      this.#trouble = troubleOf(error);
      this.#failures += 1;
      retryAfter = retryAfterOf(error);
    }
    await this.publish();
    return { failures: this.#failures, retryAfter };
  }

  /** Tells the page where things stand, one snapshot after the other. */
  publish(): Promise<void> {
    this.#publishing = this.#publishing.then(() => this.#publishNow());
    return this.#publishing;
  }

  async #takeALook(): Promise<void> {
    const manifest = await this.#client.refresh();
    void this.#history.extend(manifest);
    if ((await this.#client.status()).paused || this.#settled(manifest)) return;
    this.#trouble = null;
    await this.publish();
    this.#synced = await this.#client.sync({
      jitter: longestPause(this.#clock(), manifest.closes),
    });
    const { epoch, outcome } = this.#synced;
    if (outcome === "sent") this.#sentAt = { epoch, time: this.#clock() };
  }

  #settled({ epoch }: Manifest): boolean {
    const synced = this.#synced;
    return synced !== null && synced.epoch === epoch && !UNSETTLED.includes(synced.outcome);
  }

  async #publishNow(): Promise<void> {
    try {
      const batch = await this.#client.lastBatch();
      this.#tell({ kind: "state", state: await this.#state(batch) });
      this.#tellBatch(batch);
    } catch (error) {
      this.#trouble = troubleOf(error);
    }
  }

  #tellBatch(batch: LeftDevice | null): void {
    const shown = batch === null ? "" : `${batch.epoch} ${batch.state}`;
    if (shown === this.#shownBatch) return;
    this.#shownBatch = shown;
    this.#tell({ kind: "batch", batch });
  }

  async #state(batch: LeftDevice | null): Promise<State> {
    const status = await this.#client.status();
    const standing = { ...standingOf(status), batch, synced: this.#synced, sentAt: this.#sentAt };
    const { spent, limit } = status;
    const manifest = explained(status.manifest);
    const said = { ...standingOf(status), manifest, spent, limit, line: stateLine(standing) };
    const shown = await this.#shown(status.manifest);
    return { ...said, ...shown, trouble: this.#trouble };
  }

  async #shown(
    manifest: Manifest | null,
  ): Promise<Pick<State, "films" | "advice" | "suggestions">> {
    const shelf = await this.#shelf.of(manifest);
    const films = (await this.#client.touched()).map((id) => shelf.film(id));
    if (manifest === null) return { films, advice: [], suggestions: [] };
    const suggestions = films.length < ENOUGH ? await this.#suggest(manifest, films) : [];
    return { films, advice: films.length === 0 ? [] : await this.#advice(manifest), suggestions };
  }

  async #advice(manifest: Manifest): Promise<Advice[]> {
    const shelf = await this.#shelf.of(manifest);
    return (await this.#client.recommend(ADVICE)).map(({ id, because }) => ({
      ...shelf.film(id),
      because: because.map((reason) => shelf.film(reason.id)),
    }));
  }

  /** Chosen once, so that they do not change under her finger. */
  async #suggest(manifest: Manifest, films: readonly Film[]): Promise<readonly Film[]> {
    this.#suggestions ??= await this.#popular(manifest, films.length === 0);
    const seen = new Set(films.map((film) => film.id));
    return this.#suggestions.filter((film) => !seen.has(film.id));
  }

  /**
   * What the model connects with most other films, as a client advises whoever has no history. A
   * model that nobody has taught yet knows no such thing: then the catalogue's first.
   */
  async #popular(manifest: Manifest, noHistory: boolean): Promise<readonly Film[]> {
    const shelf = await this.#shelf.of(manifest);
    if (manifest.epoch === 1 || !noHistory) return shelf.all.slice(0, SUGGESTIONS);
    return (await this.#client.recommend(SUGGESTIONS)).map(({ id }) => shelf.film(id));
  }
}

function explained(manifest: Manifest | null) {
  return manifest === null ? null : { ...manifest, ...explain(manifest) };
}

function standingOf({ manifest, terms, paused }: Status) {
  return { manifest, agreed: terms !== null, takingPart: !paused };
}
