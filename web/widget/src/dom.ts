/** Creates elements by code, so that no text is ever parsed as markup, and attaches their style. */

/** The text of `style.css`; the bundler inserts it. */
declare const SOTTOVOCE_STYLE: string;

let sheet: CSSStyleSheet | undefined;

/**
 * Attach a shadow root with the style sheet. A page with a strict Content-Security-Policy would
 * refuse a `style` element.
 */
export function attachRoot(element: HTMLElement): ShadowRoot {
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

/**
 * Create a button. Clicks are ignored while an earlier click is being handled, and while the button
 * is `aria-disabled`. It is never `disabled`, because it would then lose the focus.
 */
export function createButton(
  part: string,
  words: string,
  act: () => unknown,
  attributes: Attributes = {},
): HTMLButtonElement {
  const element = h("button", { part: `button ${part}`, type: "button", ...attributes }, words);
  let isBusy = false;
  element.addEventListener("click", async () => {
    if (isBusy || element.getAttribute("aria-disabled") === "true") return;
    isBusy = true;
    try {
      await act();
    } finally {
      isBusy = false;
    }
  });
  return element;
}
