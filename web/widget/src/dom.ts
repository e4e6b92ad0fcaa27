/** Elements, made by hand, so that nothing is ever parsed as markup; and how they look. */

/** Whatever a page does not choose by a variable or a `::part`. */
const STYLE = `
:host {
  --fill: var(--sottovoce-background, #f6f6f4);
  --ink: var(--sottovoce-color, #1b1b1a);
  --line: var(--sottovoce-border, #767672);
  --main: var(--sottovoce-accent, #1d5c4a);
  --on-main: var(--sottovoce-on-accent, #fff);
  display: block;
  font: var(--sottovoce-font, inherit);
  overflow-wrap: anywhere;
}
@media (prefers-color-scheme: dark) {
  :host {
    --fill: var(--sottovoce-background, #242423);
    --ink: var(--sottovoce-color, #f0f0ee);
    --line: var(--sottovoce-border, #8f8f8a);
    --main: var(--sottovoce-accent, #9bd8c2);
    --on-main: var(--sottovoce-on-accent, #10241d);
  }
}
:host([hidden]) { display: none; }
section {
  background: var(--fill);
  border: 1px solid var(--line);
  border-radius: var(--sottovoce-radius, 8px);
  color: var(--ink);
  padding: 0.75em 1em;
}
section > * { margin: 0 0 0.5em; }
section > :last-child { margin: 0; }
[part=title] { font-weight: bold; }
[part=buttons] { display: flex; flex-wrap: wrap; gap: 0.5em; }
button {
  background: none;
  border: 1px solid var(--line);
  border-radius: var(--sottovoce-radius, 8px);
  color: inherit;
  cursor: pointer;
  font: inherit;
  min-height: 2.75em;
  padding: 0.25em 1em;
}
button[part~=yes] { background: var(--main); border-color: var(--main); color: var(--on-main); }
summary { cursor: pointer; }
dl { margin: 0.5em 0 0; }
dd { font-variant-numeric: tabular-nums; margin: 0 0 0.4em 1em; }
ul { padding-inline-start: 1.25em; }
ol { list-style: none; margin: 0; padding: 0; }
li + li { margin-block-start: 0.6em; }
a { color: inherit; }
[part=reason] { display: block; font-size: 0.875em; }
`;

let sheet: CSSStyleSheet | undefined;

/** A root with the style in it; not a `style` element, which a strict page would refuse. */
export function rootOf(element: HTMLElement): ShadowRoot {
  const root = element.attachShadow({ mode: "open" });
  if (sheet === undefined) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
  }
  root.adoptedStyleSheets = [sheet];
  return root;
}

type Attributes = Readonly<Record<string, string>>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes,
  ...children: (Node | string | null)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** While it does its work, another click is none; it is not disabled, which would lose the focus. */
export function button(part: string, words: string, act: () => unknown): HTMLButtonElement {
  const made = h("button", { part: `button ${part}`, type: "button" }, words);
  let isBusy = false;
  made.addEventListener("click", async () => {
    if (isBusy) return;
    isBusy = true;
    try {
      await act();
    } finally {
      isBusy = false;
    }
  });
  return made;
}
