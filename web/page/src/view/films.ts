/** Films that were seen: looked for, suggested, removed. */
import { focusAt, h, list, say, show } from "../dom.js";
import type { Ask, Film, State } from "../messages.js";
import { label } from "../titles.js";
import { SearchBox } from "./search.js";
import { section, type View } from "./view.js";

/** What the section can do beside asking. */
export interface FilmsOptions {
  ask: Ask;
  /** Tells a screen reader what an action did. */
  announce(text: string): void;
}

/** The first section. */
export function filmsView({ ask, announce }: FilmsOptions): View {
  const add = async (film: Film) => {
    await ask({ kind: "add", id: film.id });
    announce(`${label(film)} added. Your recommendations are new.`);
  };
  const search = new SearchBox({
    find: (text) => ask({ kind: "search", text }),
    choose: (film) => void add(film),
  });
  const chosen = h("ul", { id: "films", class: "chips" });
  const count = h("p", { id: "film-count", class: "note" });
  const offered = h("ul", {
    id: "suggestions",
    class: "chips offered",
    "aria-label": "Suggestions",
  });
  const offer = h("div", {}, h("p", { class: "note" }, "Perhaps one of these?"), offered);
  const remove = async (film: Film, at: number) => {
    await ask({ kind: "remove", id: film.id });
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
      offer,
    ),
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
  const button = h(
    "button",
    { type: "button", "aria-label": `Remove ${label(film)}` },
    h("span", { "aria-hidden": "true" }, "×"),
  );
  const item = h("li", {}, h("span", {}, label(film)), button);
  button.addEventListener("click", () => void remove(film, placeIn(parent, item)));
  return item;
}

function suggestion(film: Film, parent: HTMLElement, choose: Handler): HTMLElement {
  const button = h(
    "button",
    { type: "button" },
    h("span", { "aria-hidden": "true" }, "+ "),
    label(film),
  );
  const item = h("li", {}, button);
  button.addEventListener("click", () => void choose(film, placeIn(parent, item)));
  return item;
}

function placeIn(parent: HTMLElement, item: HTMLElement): number {
  return [...parent.children].indexOf(item);
}

function countText(count: number): string {
  return count === 1 ? "1 film" : `${count} films`;
}
