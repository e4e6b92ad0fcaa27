/** Creates elements by code, from attributes and text only. No text is ever parsed as markup. */

/** What an element may contain. */
export type Child = Node | string | null | false;

type Value = string | number | boolean | null | ((event: never) => void);

/** Attributes of an element. A function under `onclick` becomes a listener for `click`. */
export type Attributes = Readonly<Record<string, Value>>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

export function createSvg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) setAttribute(element, name, value);
  element.append(...children.filter((child) => child !== null && child !== false));
  return element;
}

function setAttribute(element: Element, name: string, value: Value): void {
  if (typeof value === "function") {
    element.addEventListener(name.slice(2), value as (event: Event) => void);
  } else if (value !== null && value !== false) {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * Set the text of an element only if it has changed, so that screen readers do not read it twice.
 */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

export function setVisible(element: HTMLElement, isVisible: boolean): void {
  if (element.hidden === isVisible) element.hidden = !isVisible;
}

const versions = new WeakMap<Element, string>();

/**
 * Update the children of an element so that they show the items of a list.
 *
 * The element of an unchanged item stays. If the focused element is replaced, the new element of
 * its item gets the focus.
 */
export function updateList<T extends { id: string }>(
  parent: HTMLElement,
  items: readonly T[],
  make: (item: T) => HTMLElement,
): void {
  const focused = findFocused(parent);
  const present = new Map([...parent.children].map((child) => [versions.get(child), child]));
  const elements = items.map(
    (item) => present.get(JSON.stringify(item)) ?? createVersioned(item, make),
  );
  const current = new Set(elements); // a set, because a history may have 100,000 items
  for (const child of [...parent.children]) if (!current.has(child)) child.remove();
  let next = parent.firstElementChild;
  for (const child of elements) {
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
  if (focused !== null && findFocused(parent) === null) focusItem(parent, focused);
}

function createVersioned<T extends { id: string }>(
  item: T,
  make: (item: T) => HTMLElement,
): Element {
  const element = make(item);
  element.dataset.id = item.id;
  versions.set(element, JSON.stringify(item));
  return element;
}

function findFocused(parent: HTMLElement): string | null {
  const active = document.activeElement;
  if (active === null || !parent.contains(active)) return null;
  return active.closest<HTMLElement>("[data-id]")?.dataset.id ?? null;
}

function focusItem(parent: HTMLElement, id: string): void {
  const same = [...parent.children].find((child) => (child as HTMLElement).dataset.id === id);
  same?.querySelector("button")?.focus();
}

/**
 * Focus the button at an index of a list, or the last button if there are fewer, or else another
 * element.
 */
export function focusAt(parent: HTMLElement, at: number, otherwise: HTMLElement): void {
  const buttons = parent.querySelectorAll<HTMLElement>("li > button, li .seen");
  (buttons[Math.min(at, buttons.length - 1)] ?? otherwise).focus();
}
