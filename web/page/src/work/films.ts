/** The catalogue, as the page shows and searches it. */
import type { Client, Item, Manifest } from "sottovoce-client";
import { TitleIndex } from "../finding.js";
import { hex } from "../hex.js";
import type { Film } from "../messages.js";
import { toFilm } from "../titles.js";

/** Titles of one catalogue. */
export class Films {
  readonly all: readonly Film[];
  readonly #byId: ReadonlyMap<string, Film>;
  readonly #index: TitleIndex;

  constructor(items: readonly Item[]) {
    this.all = items.map(toFilm);
    this.#byId = new Map(this.all.map((film) => [film.id, film]));
    this.#index = new TitleIndex(this.all);
  }

  /** A film that a later catalogue left out is still theirs: its id has to do as its name. */
  film(id: string): Film {
    return this.#byId.get(id) ?? { id, name: id, otherName: null, year: null, genres: [] };
  }

  /** What a question finds. */
  search(question: string, most: number): Film[] {
    return this.#index.search(question, most);
  }
}

/** Reads the catalogue of the model in use, once for each catalogue. */
export class FilmShelf {
  readonly #client: Pick<Client, "catalogue">;
  #hash = "";
  #films = new Films([]);

  constructor(client: Pick<Client, "catalogue">) {
    this.#client = client;
  }

  /** The films of this manifest; none before the first. */
  async of(manifest: Manifest | null): Promise<Films> {
    const hash = manifest === null ? "" : hex(manifest.catalogue);
    if (hash === this.#hash) return this.#films;
    this.#films = new Films(manifest === null ? [] : await this.#client.catalogue());
    this.#hash = hash;
    return this.#films;
  }
}
