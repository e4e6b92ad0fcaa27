/**
 * Elements, made by hand: attributes and text only, so that nothing is ever parsed as markup; and the parts
 * that the page is put together from.
 */

import type { Ask } from "./session.js";
import type { Film, State } from "./state.js";

/** What may stand inside an element. */
export type Child = Node | string | null | false;

type Value = string | number | boolean | null | ((event: never) => void);

/** Attributes; a function under `onclick` listens to `click`. */
export type Attributes = Readonly<Record<string, Value>>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return filled(document.createElement(tag), attributes, children);
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  element.append(...children.filter((child) => child !== null && child !== false));
  return element;
}

function set(element: Element, name: string, value: Value): void {
  if (typeof value === "function") {
    element.addEventListener(name.slice(2), value as (event: Event) => void);
  } else if (value !== null && value !== false) {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** Sets the text only if it is another one: screen readers hear nothing twice. */
export function say(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

export function show(element: HTMLElement, shown: boolean): void {
  if (element.hidden === shown) element.hidden = !shown;
}

const versions = new WeakMap<Element, string>();

/**
 * Makes a parent's children those of a list. What did not change stays the same element, and where
 * the focused one had to be made anew, the focus goes to its successor.
 */
export function list<T extends { id: string }>(
  parent: HTMLElement,
  items: readonly T[],
  make: (item: T) => HTMLElement,
): void {
  const focused = focusedIn(parent);
  const present = new Map([...parent.children].map((child) => [versions.get(child), child]));
  const wanted = items.map((item) => present.get(JSON.stringify(item)) ?? versioned(item, make));
  const kept = new Set(wanted); // a history may have 100,000 items
  for (const child of [...parent.children]) if (!kept.has(child)) child.remove();
  let next = parent.firstElementChild;
  for (const child of wanted) {
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
  if (focused !== null && focusedIn(parent) === null) focusIn(parent, focused);
}

function versioned<T extends { id: string }>(item: T, make: (item: T) => HTMLElement): Element {
  const element = make(item);
  element.dataset.id = item.id;
  versions.set(element, JSON.stringify(item));
  return element;
}

function focusedIn(parent: HTMLElement): string | null {
  const active = document.activeElement;
  if (active === null || !parent.contains(active)) return null;
  return active.closest<HTMLElement>("[data-id]")?.dataset.id ?? null;
}

function focusIn(parent: HTMLElement, id: string): void {
  const same = [...parent.children].find((child) => (child as HTMLElement).dataset.id === id);
  same?.querySelector("button")?.focus();
}

/** Focuses the button at a place in a list, or the last one before it, or something else. */
export function focusAt(parent: HTMLElement, at: number, otherwise: HTMLElement): void {
  const buttons = parent.querySelectorAll<HTMLElement>("li > button, li .seen");
  (buttons[Math.min(at, buttons.length - 1)] ?? otherwise).focus();
}

export interface View {
  element: HTMLElement;
  update(state: State): void;
}

/** What a part of the page can do beside showing. */
export interface Acting {
  ask: Ask;
  /** Tells a screen reader what an action did. */
  announce(text: string): void;
}

/** A button with words, and what it does; while it does it, another click is none. */
export function button(
  attributes: Attributes,
  words: string,
  onclick: () => unknown,
): HTMLButtonElement {
  let isBusy = false;
  const act = async () => {
    if (isBusy) return;
    isBusy = true;
    try {
      await onclick();
    } finally {
      isBusy = false;
    }
  };
  return h("button", { type: "button", class: "button small", ...attributes, onclick: act }, words);
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

export function genres(film: Film): HTMLElement | null {
  return film.genres.length === 0 ? null : h("span", { class: "genres" }, film.genres.join(" · "));
}
