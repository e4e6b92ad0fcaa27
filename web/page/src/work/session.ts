/** One open client, and all that the page shows of it. */
import {
  Client,
  spent as exactly,
  type LeftDevice,
  type Manifest,
  type Status,
  type Synced,
  type Terms,
} from "sottovoce-client";
import { hex } from "../hex.js";
import type { Advice, Event, Film, Found, RequestOf, State, Trouble } from "../messages.js";
import { stateLine } from "../sentences.js";
import { FilmShelf } from "./films.js";
import { type FetchPanel, fetchPanel, History } from "./history.js";
import { offerOf } from "./offer.js";
import type { Looked } from "./pace.js";
import { Naps, type Result, Running } from "./running.js";
import { retryAfterOf, troubleOf } from "./trouble.js";

const ADVICE = 10;
const SUGGESTIONS = 12;
const FOUND = 10;
/** Of what speaks for a film: less is 0% in words, and no reason. */
const LEAST_SHARE = 0.005;
/** Whoever has chosen so many has found the way. */
const ENOUGH = 3;

/** A sync that came to one of these may come to something else in the same epoch. */
const UNSETTLED: readonly Synced["outcome"][] = [
  ...(["not open", "not accepted", "paused", "too soon", "missed"] as const),
];

/** What a session takes from the world beside its client. */
export interface SessionTools {
  /** Unix seconds. */
  clock: () => number;
  panel: FetchPanel;
  /** Those of its client. */
  naps: Naps;
  /** Seconds over which the moment of sending is drawn. */
  jitter: number;
}

/** Everything that happens between the page and its client. */
export class Session {
  readonly #client: Client;
  readonly #tell: (event: Event) => void;
  readonly #clock: () => number;
  readonly #shelf: FilmShelf;
  readonly #history: History;
  readonly #naps: Naps;
  readonly #jitter: number;
  #running: Running | null = null;
  #failed: { error: unknown } | null = null;
  #trouble: Trouble | null = null;
  #failures = 0;
  #synced: Synced | null = null;
  #sentAt: { epoch: number; time: number } | null = null;
  #suggestions: { catalogue: string; films: readonly Film[] } | null = null;
  #shownBatch = "";
  #publishing: Promise<void> = Promise.resolve();

  constructor(client: Client, tell: (event: Event) => void, tools: SessionTools) {
    this.#client = client;
    this.#clock = tools.clock;
    this.#naps = tools.naps;
    this.#jitter = tools.jitter;
    this.#tell = tell;
    this.#shelf = new FilmShelf(client);
    this.#history = new History(client, (curve) => tell({ kind: "curve", curve }), tools.panel);
  }

  /** Until somebody says yes there are no terms to report on, a limit of 0, and a pause. */
  static async open(request: RequestOf<"open">, tell: (event: Event) => void): Promise<Session> {
    const { proxy, key, name, jitter } = request;
    const naps = new Naps();
    const sleep = naps.sleep;
    const client = await Client.open({ proxy, key, name, limit: 0, paused: true, sleep });
    const clock = () => Date.now() / 1000;
    return new Session(client, tell, { clock, panel: fetchPanel, naps, jitter });
  }

  /** Remembers a film that was seen. */
  async add(id: string): Promise<void> {
    await this.#client.record([id]);
    await this.publish();
  }

  /** Forgets one. */
  async remove(id: string): Promise<void> {
    await this.#client.remove([id]);
    await this.publish();
  }

  /** A yes to what was shown: to that and no more, up to a limit; then to begin. */
  async agree(terms: Terms, limit: number): Promise<void> {
    await this.#client.accept(terms);
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

  /** A yes to terms that are worse than before, those that were shown. */
  async acceptTerms(terms: Terms): Promise<void> {
    await this.#client.accept(terms);
    this.#trouble = null;
    await this.publish();
  }

  /** Deletes what tells of the owner, and stops taking part. */
  async forget(): Promise<void> {
    await this.#client.pause(true);
    await this.#running?.stop();
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

  /** Learns what is new, and takes part if it is time and the owner wants to. */
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
    if (this.#running?.epoch !== manifest.epoch) await this.#running?.stop();
    if (this.#running === null && this.#failed === null) await this.#begin(manifest);
    this.#raise();
  }

  /**
   * Takes part. A sync that falls asleep goes on beside the looks. Nothing is published before it:
   * that computes advice, and how long it takes would show in when the sync asks the proxy.
   */
  async #begin(manifest: Manifest): Promise<void> {
    const { paused, terms } = await this.#client.status();
    if (paused || terms === null || this.#settled(manifest)) return;
    this.#trouble = null;
    this.#synced = null;
    const asleep = this.#naps.begun();
    const sync = (signal: AbortSignal) => this.#client.sync({ jitter: this.#jitter, signal });
    this.#running = new Running(manifest.epoch, sync, (result) => this.#ended(result));
    await this.#running.overOr(asleep);
  }

  #ended(result: Result): void {
    this.#running = null;
    if (result !== null && "error" in result) this.#failed = result;
    this.#synced = result !== null && "synced" in result ? result.synced : null;
    const { epoch, outcome } = this.#synced ?? { epoch: 0, outcome: null };
    if (outcome === "sent") this.#sentAt = { epoch, time: this.#clock() };
    void this.publish();
  }

  /** What a sync failed with, in this look or asleep since the last one. */
  #raise(): void {
    const failed = this.#failed;
    this.#failed = null;
    if (failed !== null) throw failed.error;
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
    const { manifest, plan, epochs, charges, spent, limit } = status;
    const session = { synced: this.#synced, sentAt: this.#sentAt, now: this.#clock() };
    const line = stateLine({ ...standingOf(status), batch, plan, ...session });
    const offer = manifest === null ? null : offerOf(manifest.terms, charges);
    const worse = this.#trouble?.terms ?? null;
    const asked = worse === null ? null : offerOf(worse.asked, charges);
    const budget = { epochs, spent, gone: exactly(charges), limit };
    const said = { ...standingOf(status), offer, asked, ...budget, line };
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
      because: because
        .filter(({ share }) => share > LEAST_SHARE)
        .map((reason) =>
          reason.kind === "item"
            ? { kind: "film", film: shelf.film(reason.id) }
            : { kind: "tag", tag: reason.tag, name: reason.name },
        ),
    }));
  }

  /** Chosen once for a catalogue, so that they do not change under a finger. */
  async #suggest(manifest: Manifest, films: readonly Film[]): Promise<readonly Film[]> {
    const catalogue = hex(manifest.catalogue);
    if (this.#suggestions?.catalogue !== catalogue) {
      const popular = await this.#popular(manifest, films.length === 0);
      this.#suggestions = { catalogue, films: popular };
    }
    const seen = new Set(films.map((film) => film.id));
    return this.#suggestions.films.filter((film) => !seen.has(film.id));
  }

  /** What a client advises whoever has no history; later the catalogue's first. */
  async #popular(manifest: Manifest, noHistory: boolean): Promise<readonly Film[]> {
    const shelf = await this.#shelf.of(manifest);
    if (!noHistory) return shelf.all.slice(0, SUGGESTIONS);
    return (await this.#client.recommend(SUGGESTIONS)).map(({ id }) => shelf.film(id));
  }
}

function standingOf({ manifest, terms, paused }: Status) {
  return { manifest, agreed: terms !== null, takingPart: !paused };
}
