/** Ten films, worked out here, each with its reasons. */
import type { Manifest } from "sottovoce-client";
import { focusAt, h, list, say, show } from "../dom.js";
import type { Advice, Ask, Curve, State } from "../messages.js";
import { becauseWords } from "../reasons.js";
import { label } from "../titles.js";
import { youngText } from "../young.js";
import { genres, otherName, section, titleOf, type View } from "./view.js";

/** What the section can do beside asking. */
export interface AdviceOptions {
  ask: Ask;
  /** Tells a screen reader what an action did. */
  announce(text: string): void;
}

/** The section, which is told of the curve too: it says how much to expect. */
export interface AdviceView extends View {
  showCurve(curve: Curve): void;
}

/** The second section. */
export function adviceView({ ask, announce }: AdviceOptions): AdviceView {
  const films = h("ol", { id: "recommendations", class: "advice" });
  const empty = h("p", { id: "no-recommendations", class: "empty" });
  const young = h("p", { id: "young", class: "young" });
  const model = h("p", { id: "model", class: "note" });
  const element = section(
    "for-you",
    "For you",
    "Worked out on this device, from your films.",
    empty,
    young,
    films,
    model,
  );
  const seen = async (film: Advice, at: number) => {
    await ask({ kind: "add", id: film.id });
    announce(`${label(film)} marked as seen.`);
    focusAt(films, at, element);
  };
  let now: State | null = null;
  let learnt: Curve | null = null;
  const showAge = () => {
    const age = now === null || now.manifest === null ? null : youngText(now.manifest, learnt);
    say(young, age ?? "");
    show(young, age !== null && now !== null && now.advice.length > 0);
  };
  return {
    element,
    showCurve(curve) {
      learnt = curve;
      showAge();
    },
    update(state) {
      const { advice, manifest, films: chosen } = state;
      now = state;
      showAge();
      list(films, advice, (film) => item(film, films, seen));
      say(empty, emptyText(manifest !== null, chosen.length > 0));
      show(empty, advice.length === 0);
      show(films, advice.length > 0);
      say(model, manifest === null ? "" : modelText(manifest));
    },
  };
}

type Handler = (film: Advice, at: number) => Promise<void>;

function item(film: Advice, parent: HTMLElement, seen: Handler): HTMLElement {
  const button = h(
    "button",
    { type: "button", class: "button small seen", "aria-label": `I have seen ${label(film)}` },
    "Seen",
  );
  const details = h("div", { class: "details" }, otherName(film), genres(film), reason(film));
  const element = h("li", {}, titleOf(film), details, button);
  button.addEventListener("click", () => void seen(film, [...parent.children].indexOf(element)));
  return element;
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
function modelText({ epoch }: Manifest): string {
  return `From the model of epoch ${epoch}, checked against the server's signature.`;
}
