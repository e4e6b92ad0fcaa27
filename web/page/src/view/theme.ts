/** Light or dark: as the device says, unless somebody says otherwise. */
import { h } from "../dom.js";
import { recall, remember } from "../remembered.js";

const THEMES = ["auto", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

/** To be called before anything is drawn. */
export function applyTheme(): void {
  document.documentElement.dataset.theme = chosen();
}

function chosen(): Theme {
  const kept = recall("theme");
  return THEMES.find((theme) => theme === kept) ?? "auto";
}

/** Three buttons of which one is in. */
export function themeSwitch(): HTMLElement {
  return h(
    "fieldset",
    { id: "theme", class: "theme" },
    h("legend", { class: "visually-hidden" }, "Colours"),
    ...THEMES.map(option),
  );
}

function option(theme: Theme): HTMLElement {
  const choose = () => {
    remember("theme", theme);
    applyTheme();
  };
  const input = h("input", {
    type: "radio",
    name: "theme",
    value: theme,
    checked: theme === chosen(),
    onchange: choose,
  });
  return h("label", {}, input, h("span", {}, theme));
}
