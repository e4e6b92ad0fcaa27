/** Elements, made by hand, so that nothing is ever parsed as markup; and how they look. */

/** All of `style.css`; put in when this is bundled. */
declare const SOTTOVOCE_STYLE: string;

let sheet: CSSStyleSheet | undefined;

/** A root with the style in it; not a `style` element, which a strict page would refuse. */
export function rootOf(element: HTMLElement): ShadowRoot {
  const root = element.attachShadow({ mode: "open" });
  if (sheet === undefined) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(SOTTOVOCE_STYLE);
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
