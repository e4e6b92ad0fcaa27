/** Elements that several sections of the page use. */

import type { Attributes } from "../dom.js";
import { h } from "../dom.js";
import type { Ask } from "../session.js";
import type { Film, State } from "../state.js";

/** A part of the page. */
export interface View {
  element: HTMLElement;
  update(state: State): void;
}

/** The actions that a part of the page can use. */
export interface Actions {
  ask: Ask;
  /** Tell a screen reader what an action did. */
  announce(text: string): void;
}

/** Create a button. Clicks are ignored while an earlier click is being handled. */
export function createButton(
  attributes: Attributes,
  words: string,
  onclick: () => unknown,
): HTMLButtonElement {
  let isBusy = false;
  const runOnce = async () => {
    if (isBusy) return;
    isBusy = true;
    try {
      await onclick();
    } finally {
      isBusy = false;
    }
  };
  return h(
    "button",
    { type: "button", class: "button small", ...attributes, onclick: runOnce },
    words,
  );
}

/** Create a section with a heading, which also labels it for screen readers. */
export function createSection(
  id: string,
  title: string,
  lead: string | null,
  ...children: Node[]
): HTMLElement {
  const heading = `${id}-title`;
  return h(
    "section",
    { id, class: "card", "aria-labelledby": heading },
    h("h2", { id: heading }, title),
    lead === null ? null : h("p", { class: "lead" }, lead),
    ...children,
  );
}

/** Create a collapsible section. */
export function createDetails(id: string, summary: string, ...children: Node[]): HTMLElement {
  return h("details", { id }, h("summary", {}, summary), ...children);
}

/** Create a film's title, with the year in a lighter style. */
export function createTitle(film: Film): HTMLElement {
  const year = film.year === null ? null : h("span", { class: "year" }, ` ${film.year}`);
  return h("span", { class: "title" }, film.name, year);
}

/** Create the original title, if there is one. */
export function createOtherName(film: Film): HTMLElement | null {
  return film.otherName === null ? null : h("span", { class: "other" }, film.otherName);
}

export function createGenres(film: Film): HTMLElement | null {
  return film.genres.length === 0 ? null : h("span", { class: "genres" }, film.genres.join(" · "));
}
