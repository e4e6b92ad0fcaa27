/** A part of the page: made once, brought up to date whenever something changed. */

import { h } from "../dom.js";
import type { Film, State } from "../messages.js";

/** Shows a part of the state. */
export interface View {
  element: HTMLElement;
  update(state: State): void;
}

/** A section with a heading, which is also its name. */
export function section(id: string, title: string, lead: string, ...children: Node[]): HTMLElement {
  const heading = `${id}-title`;
  return h(
    "section",
    { id, class: "card", "aria-labelledby": heading },
    h("h2", { id: heading }, title),
    h("p", { class: "lead" }, lead),
    ...children,
  );
}

/** A film's title, with the year in a lighter hand. */
export function titleOf(film: Film): HTMLElement {
  const year = film.year === null ? null : h("span", { class: "year" }, ` ${film.year}`);
  return h("span", { class: "title" }, film.name, year);
}

/** The original title, where there is another one. */
export function otherName(film: Film): HTMLElement | null {
  return film.otherName === null ? null : h("span", { class: "other" }, film.otherName);
}

/** Genres in one line. */
export function genres(film: Film): HTMLElement | null {
  return film.genres.length === 0 ? null : h("span", { class: "genres" }, film.genres.join(" · "));
}
