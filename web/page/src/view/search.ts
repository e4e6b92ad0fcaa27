/** Silence before a screen reader is told how much was found. */
import { genres, h, otherName, say, show, titleOf } from "../dom.js";
import type { Found } from "../state.js";
import { label } from "../titles.js";

const QUIET = 800;

/** An editable combobox with a list, as the ARIA practices describe it: searches while somebody types. */
export class SearchBox {
  readonly element: HTMLElement;
  readonly input: HTMLInputElement;
  readonly #list: HTMLUListElement;
  readonly #count: HTMLElement;
  #found: readonly Found[] = [];
  #active = -1;
  #asked = 0;
  #isAsking = false;
  #hasCatalogue = false;
  #telling: number | undefined;

  constructor(
    private readonly find: (text: string) => Promise<readonly Found[]>,
    private readonly choose: (film: Found) => void,
  ) {
    this.input = this.#makeInput();
    this.#list = h("ul", {
      id: "search-results",
      role: "listbox",
      "aria-label": "Films found",
      hidden: true,
    });
    this.#count = h("p", { class: "visually-hidden", role: "status" });
    const name = h("label", { for: "search" }, "Search by title");
    this.element = h("div", { class: "search" }, name, this.input, this.#list, this.#count);
  }

  /** Whether there are films to search; what was typed before they came is looked up then. */
  catalogueIsHere(here: boolean): void {
    const came = here && !this.#hasCatalogue;
    this.#hasCatalogue = here;
    if (came && this.input.value !== "") void this.#search();
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
      onkeydown: (event: KeyboardEvent) => this.#key(event),
      onfocus: () => this.#open(this.#found.length > 0),
      onblur: () => this.#open(false),
    });
  }

  /** One question at a time: in a large catalogue letters come faster than answers. */
  async #search(): Promise<void> {
    this.#asked += 1;
    if (this.#isAsking) return;
    this.#isAsking = true;
    try {
      for (let asked = 0; asked !== this.#asked; ) {
        asked = this.#asked;
        const found = await this.find(this.input.value);
        if (asked === this.#asked) this.#show(found);
      }
    } finally {
      this.#isAsking = false;
    }
  }

  #show(found: readonly Found[]): void {
    this.#found = found;
    this.#list.replaceChildren(...found.map((film, at) => this.#option(film, at)));
    this.#open(found.length > 0);
    this.#tell();
  }

  #option(film: Found, at: number): HTMLElement {
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
      titleOf(film),
      otherName(film),
      genres(film),
      seen,
    );
  }

  #open(open: boolean): void {
    show(this.#list, open);
    this.input.setAttribute("aria-expanded", String(open));
    this.#activate(-1);
  }

  #activate(at: number): void {
    this.#list.children[this.#active]?.setAttribute("aria-selected", "false");
    this.#active = at;
    const option = this.#list.children[at];
    this.input.removeAttribute("aria-activedescendant");
    if (option === undefined) return;
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", option.id);
  }

  #key(event: KeyboardEvent): void {
    if (event.key === "Escape") this.#escape();
    else if (event.key === "Enter") this.#choose(Math.max(0, this.#active));
    else if (!this.#moved(event.key)) return;
    event.preventDefault();
  }

  /** Home and End belong to the text until an option is active. */
  #moved(key: string): boolean {
    const count = this.#found.length;
    if (count === 0 || ((key === "Home" || key === "End") && this.#active < 0)) return false;
    const at = placeAfter(key, this.#active, count);
    if (at === null) return false;
    if (this.#list.hidden) this.#open(true);
    this.#activate(at);
    return true;
  }

  /** First the list goes, then the text. */
  #escape(): void {
    if (this.#list.hidden) this.#clear();
    else this.#open(false);
  }

  #choose(at: number): void {
    const film = this.#found[at];
    if (film === undefined || film.seen || this.#list.hidden) return;
    this.choose(film);
    this.#clear();
  }

  #clear(): void {
    this.input.value = "";
    this.#asked += 1;
    this.#show([]);
  }

  #tell(): void {
    clearTimeout(this.#telling);
    const [first] = this.#found;
    const count = this.#found.length;
    const typed = this.input.value.trim();
    const none = this.#hasCatalogue
      ? `No film is called “${typed}”.`
      : "The list of films is still on its way.";
    const told = first === undefined ? none : `${count} found, first ${label(first)}.`;
    const text = typed === "" ? "" : told;
    this.#telling = window.setTimeout(() => {
      say(this.#count, text);
      this.#count.className = first === undefined ? "note" : "visually-hidden";
    }, QUIET);
  }
}

/** Which option a key leads to; null for a key that leads nowhere. */
function placeAfter(key: string, active: number, count: number): number | null {
  if (key === "ArrowDown") return (active + 1) % count;
  if (key === "ArrowUp") return active <= 0 ? count - 1 : active - 1;
  if (key === "Home") return 0;
  return key === "End" ? count - 1 : null;
}
