/** A search box for titles. */

import { h, setText, setVisible } from "../dom.js";
import type { SearchResult } from "../state.js";
import { formatTitle } from "../titles.js";
import { createGenres, createOtherName, createTitle } from "./parts.js";

/** Delay after typing before a screen reader announces the number of results. */
const ANNOUNCE_DELAY_MILLISECONDS = 800;

/**
 * An editable combobox with a list, as in the ARIA Authoring Practices. It searches while a person
 * types.
 */
export class SearchBox {
  readonly element: HTMLElement;
  readonly input: HTMLInputElement;
  readonly #list: HTMLUListElement;
  readonly #status: HTMLElement;
  #results: readonly SearchResult[] = [];
  #active = -1;
  #searchCount = 0;
  #isSearching = false;
  #hasCatalogue = false;
  #announcement: number | undefined;

  constructor(
    private readonly find: (text: string) => Promise<readonly SearchResult[]>,
    private readonly choose: (film: SearchResult) => void,
  ) {
    this.input = this.#makeInput();
    this.#list = h("ul", {
      id: "search-results",
      role: "listbox",
      "aria-label": "Films found",
      hidden: true,
    });
    this.#status = h("p", { class: "visually-hidden", role: "status" });
    const name = h("label", { for: "search" }, "Search by title");
    this.element = h("div", { class: "search" }, name, this.input, this.#list, this.#status);
  }

  /** Set whether there are films to search. If so, text that was typed before is searched now. */
  setCatalogueReady(isReady: boolean): void {
    const hasArrived = isReady && !this.#hasCatalogue;
    this.#hasCatalogue = isReady;
    if (hasArrived && this.input.value !== "") void this.#search();
  }

  #makeInput(): HTMLInputElement {
    return h("input", {
      id: "search",
      type: "text",
      role: "combobox",
      autocomplete: "off",
      autocapitalize: "none",
      spellcheck: "false",
      placeholder: "The Matrix, Amélie, 1994 …",
      "aria-expanded": "false",
      "aria-controls": "search-results",
      "aria-autocomplete": "list",
      oninput: () => void this.#search(),
      onkeydown: (event: KeyboardEvent) => this.#handleKey(event),
      onfocus: () => this.#setOpen(this.#results.length > 0),
      onblur: () => this.#setOpen(false),
    });
  }

  /**
   * Search for the typed text, one search at a time: in a large catalogue, letters arrive faster
   * than results.
   */
  async #search(): Promise<void> {
    this.#searchCount += 1;
    if (this.#isSearching) return;
    this.#isSearching = true;
    try {
      for (let searched = 0; searched !== this.#searchCount; ) {
        searched = this.#searchCount;
        const results = await this.find(this.input.value);
        if (searched === this.#searchCount) this.#showResults(results);
      }
    } finally {
      this.#isSearching = false;
    }
  }

  #showResults(results: readonly SearchResult[]): void {
    this.#results = results;
    this.#list.replaceChildren(...results.map((film, at) => this.#createOption(film, at)));
    this.#setOpen(results.length > 0);
    this.#announce();
  }

  #createOption(film: SearchResult, at: number): HTMLElement {
    const seen = film.seen ? h("span", { class: "mark" }, "seen") : null;
    return h(
      "li",
      {
        id: `search-result-${at}`,
        role: "option",
        "aria-selected": "false",
        "aria-disabled": film.seen ? "true" : null,
        "data-id": film.id,
        onpointerdown: (event: PointerEvent) => event.preventDefault(),
        onclick: () => this.#choose(at),
      },
      createTitle(film),
      createOtherName(film),
      createGenres(film),
      seen,
    );
  }

  #setOpen(open: boolean): void {
    setVisible(this.#list, open);
    this.input.setAttribute("aria-expanded", String(open));
    this.#setActive(-1);
  }

  #setActive(at: number): void {
    this.#list.children[this.#active]?.setAttribute("aria-selected", "false");
    this.#active = at;
    const option = this.#list.children[at];
    this.input.removeAttribute("aria-activedescendant");
    if (option === undefined) return;
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", option.id);
  }

  #handleKey(event: KeyboardEvent): void {
    if (event.key === "Escape") this.#handleEscape();
    else if (event.key === "Enter") this.#choose(Math.max(0, this.#active));
    else if (!this.#moveActive(event.key)) return;
    event.preventDefault();
  }

  /**
   * Make another option active, and return whether the key did that. Home and End move within the
   * text while no option is active.
   */
  #moveActive(key: string): boolean {
    const count = this.#results.length;
    if (count === 0 || ((key === "Home" || key === "End") && this.#active < 0)) return false;
    const at = findNextPlace(key, this.#active, count);
    if (at === null) return false;
    if (this.#list.hidden) this.#setOpen(true);
    this.#setActive(at);
    return true;
  }

  /** Close the list first, then clear the text. */
  #handleEscape(): void {
    if (this.#list.hidden) this.#clear();
    else this.#setOpen(false);
  }

  #choose(at: number): void {
    const film = this.#results[at];
    if (film === undefined || film.seen || this.#list.hidden) return;
    this.choose(film);
    this.#clear();
  }

  #clear(): void {
    this.input.value = "";
    this.#searchCount += 1;
    this.#showResults([]);
  }

  #announce(): void {
    clearTimeout(this.#announcement);
    const [first] = this.#results;
    const count = this.#results.length;
    const typed = this.input.value.trim();
    const emptySentence = this.#hasCatalogue
      ? `No film is called “${typed}”.`
      : "The list of films is still on its way.";
    const resultSentence =
      first === undefined ? emptySentence : `${count} found, first ${formatTitle(first)}.`;
    const text = typed === "" ? "" : resultSentence;
    this.#announcement = window.setTimeout(() => {
      setText(this.#status, text);
      this.#status.className = first === undefined ? "note" : "visually-hidden";
    }, ANNOUNCE_DELAY_MILLISECONDS);
  }
}

/** Return the index of the option to which a key leads; null for other keys. */
function findNextPlace(key: string, active: number, count: number): number | null {
  if (key === "ArrowDown") return (active + 1) % count;
  if (key === "ArrowUp") return active <= 0 ? count - 1 : active - 1;
  if (key === "Home") return 0;
  return key === "End" ? count - 1 : null;
}
