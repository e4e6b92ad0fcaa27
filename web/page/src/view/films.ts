/**
 * Films that were seen (looked for, suggested, removed), and ten for their owner, each with its reasons.
 */

import type { Manifest } from "sottovoce-client";
import {
  type Acting,
  button,
  focusAt,
  genres,
  h,
  list,
  otherName,
  say,
  section,
  show,
  titleOf,
  type View,
} from "../dom.js";
import type { Advice, Curve, Film, Found, State } from "../session.js";
import { label } from "../titles.js";
import { becauseWords, youngText } from "../words.js";

export function filmsView({ ask, announce }: Acting): View & { suggested: HTMLElement } {
  const add = async (film: Film) => {
    await ask((session) => session.add(film.id));
    announce(`${label(film)} added. Your recommendations are new.`);
  };
  const search = new SearchBox(
    (text) => ask((session) => session.search(text), false),
    (film) => void add(film),
  );
  const chosen = h("ul", { id: "films", class: "chips" });
  const count = h("p", { id: "film-count", class: "note" });
  const offered = h("ul", {
    id: "suggestions",
    class: "chips offered",
    "aria-label": "Suggestions",
  });
  const offer = section("known", "Perhaps you know these", "What many have seen.", offered);
  const remove = async (film: Film, at: number) => {
    await ask((session) => session.remove(film.id));
    announce(`${label(film)} removed.`);
    focusAt(chosen, at, search.input);
  };
  const choose = async (film: Film, at: number) => {
    await add(film);
    focusAt(offered, at, search.input);
  };

  return {
    element: section(
      "seen",
      "Films you have seen",
      "They are kept in this browser and nowhere else.",
      search.element,
      count,
      chosen,
    ),
    /** Comes after the recommendations: on a phone it would push them off the screen. */
    suggested: offer,
    update({ films, suggestions, searchable }: State) {
      search.catalogueIsHere(searchable);
      say(count, countText(films.length));
      show(count, films.length > 0);
      list(chosen, films, (film) => chip(film, chosen, remove));
      list(offered, suggestions, (film) => suggestion(film, offered, choose));
      show(chosen, films.length > 0);
      show(offer, suggestions.length > 0);
    },
  };
}

type Handler = (film: Film, at: number) => Promise<void>;

function chip(film: Film, parent: HTMLElement, remove: Handler): HTMLElement {
  const mark = h("span", { "aria-hidden": "true" }, "×");
  const button = h("button", { type: "button", "aria-label": `Remove ${label(film)}` }, mark);
  return heeding(button, film, parent, remove, h("span", {}, label(film)));
}

function suggestion(film: Film, parent: HTMLElement, choose: Handler): HTMLElement {
  const mark = h("span", { "aria-hidden": "true" }, "+ ");
  return heeding(h("button", { type: "button" }, mark, label(film)), film, parent, choose);
}

/** An item of a list whose button does something with its film. */
function heeding<F extends Film>(
  button: HTMLElement,
  film: F,
  parent: HTMLElement,
  act: (film: F, at: number) => Promise<void>,
  ...before: Node[]
): HTMLElement {
  const item = h("li", {}, ...before, button);
  button.addEventListener("click", () => void act(film, [...parent.children].indexOf(item)));
  return item;
}

function countText(count: number): string {
  return count === 1 ? "1 film" : `${count} films`;
}

export function adviceView({ ask, announce }: Acting) {
  const films = h("ol", { id: "recommendations", class: "advice" });
  const empty = h("p", { id: "no-recommendations", class: "empty" });
  const young = h("p", { id: "young", class: "young" });
  const model = h("p", { id: "model", class: "note" });
  let now: State | null = null;
  const listen = () => ask((session) => session.listen(now?.whispers === false));
  const attributes = { id: "whispers", role: "switch", class: "switch", "aria-checked": "true" };
  const whispers = button(attributes, "With everybody's whispers", listen);
  const element = section(
    "for-you",
    "For you",
    "Worked out on this device, from your films.",
    empty,
    whispers,
    young,
    films,
    model,
  );
  const seen = async (film: Advice, at: number) => {
    await ask((session) => session.add(film.id));
    announce(`${label(film)} marked as seen.`);
    focusAt(films, at, element);
  };
  let learnt: Curve | null = null;
  const showAge = () => {
    const aged = now?.whispers === false ? null : (now?.manifest ?? null);
    const age = aged && youngText(aged, learnt);
    say(young, age ?? "");
    show(young, age !== null && now !== null && now.advice.length > 0);
  };
  return {
    element,
    /** It says how much to expect. */
    showCurve(curve: Curve) {
      learnt = curve;
      showAge();
    },
    update(state: State) {
      const { advice, manifest, films: chosen } = state;
      now = state;
      showAge();
      list(films, advice, (film) => advised(film, films, seen));
      say(empty, emptyText(manifest !== null, chosen.length > 0));
      show(empty, advice.length === 0);
      show(films, advice.length > 0);
      show(whispers, advice.length > 0);
      whispers.setAttribute("aria-checked", String(state.whispers));
      say(model, manifest === null ? "" : modelText(manifest, state.whispers));
    },
  };
}

type AdviceHandler = (film: Advice, at: number) => Promise<void>;

function advised(film: Advice, parent: HTMLElement, seen: AdviceHandler): HTMLElement {
  const button = h(
    "button",
    { type: "button", class: "button small seen", "aria-label": `I have seen ${label(film)}` },
    "Seen",
  );
  const details = h("div", { class: "details" }, otherName(film), genres(film), reason(film));
  return heeding(button, film, parent, seen, titleOf(film), details);
}

function reason({ because }: Advice): HTMLElement | null {
  if (because.length === 0) return null;
  const words = becauseWords(because).map(({ kind, text }) => {
    if (kind === "film") return h("cite", {}, text);
    return kind === "tag" ? h("span", { class: "tag" }, text) : text;
  });
  return h("span", { class: "reason" }, ...words);
}

function emptyText(model: boolean, chosen: boolean): string {
  if (!model) return "The model is on its way.";
  return chosen
    ? "This model knows none of your films yet."
    : "Choose a film or two that you have seen, and ten for you appear here.";
}

/** What the recommendations come from. */
function modelText({ epoch }: Manifest, whispers: boolean): string {
  if (!whispers)
    return "By tags alone, such as genres: the list that there would be without anybody's reports.";
  return `From the model of epoch ${epoch}, checked against the server's signature.`;
}

/** Silence before a screen reader is told how much was found. */
const QUIET = 800;

/** An editable combobox with a list, as the ARIA practices describe it: searches while somebody types. */
class SearchBox {
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
