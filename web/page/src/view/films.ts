/**
 * Films that were seen (looked for, suggested, removed), and ten for their owner, each with its reasons.
 */

import type { Manifest } from "sottovoce-client";
import {
  type Acting,
  button,
  focusAt,
  genres,
  h,
  list,
  otherName,
  say,
  section,
  show,
  titleOf,
  type View,
} from "../dom.js";
import type { Advice, Curve, Film, State } from "../state.js";
import { label } from "../titles.js";
import { becauseWords, youngText } from "../words.js";
import { SearchBox } from "./search.js";

export function filmsView({ ask, announce }: Acting): View & { suggested: HTMLElement } {
  const add = async (film: Film) => {
    await ask((session) => session.add(film.id));
    announce(`${label(film)} added. Your recommendations are new.`);
  };
  const search = new SearchBox(
    (text) => ask((session) => session.search(text), false),
    (film) => void add(film),
  );
  const chosen = h("ul", { id: "films", class: "chips" });
  const count = h("p", { id: "film-count", class: "note" });
  const offered = h("ul", {
    id: "suggestions",
    class: "chips offered",
    "aria-label": "Suggestions",
  });
  const offer = section("known", "Perhaps you know these", "What many have seen.", offered);
  const remove = async (film: Film, at: number) => {
    await ask((session) => session.remove(film.id));
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
    ),
    /** Comes after the recommendations: on a phone it would push them off the screen. */
    suggested: offer,
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
  const mark = h("span", { "aria-hidden": "true" }, "×");
  const button = h("button", { type: "button", "aria-label": `Remove ${label(film)}` }, mark);
  return heeding(button, film, parent, remove, h("span", {}, label(film)));
}

function suggestion(film: Film, parent: HTMLElement, choose: Handler): HTMLElement {
  const mark = h("span", { "aria-hidden": "true" }, "+ ");
  return heeding(h("button", { type: "button" }, mark, label(film)), film, parent, choose);
}

/** An item of a list whose button does something with its film. */
function heeding<F extends Film>(
  button: HTMLElement,
  film: F,
  parent: HTMLElement,
  act: (film: F, at: number) => Promise<void>,
  ...before: Node[]
): HTMLElement {
  const item = h("li", {}, ...before, button);
  button.addEventListener("click", () => void act(film, [...parent.children].indexOf(item)));
  return item;
}

function countText(count: number): string {
  return count === 1 ? "1 film" : `${count} films`;
}

export function adviceView({ ask, announce }: Acting) {
  const films = h("ol", { id: "recommendations", class: "advice" });
  const empty = h("p", { id: "no-recommendations", class: "empty" });
  const young = h("p", { id: "young", class: "young" });
  const model = h("p", { id: "model", class: "note" });
  let now: State | null = null;
  const listen = () => ask((session) => session.listen(now?.whispers === false));
  const attributes = { id: "whispers", role: "switch", class: "switch", "aria-checked": "true" };
  const whispers = button(attributes, "With everybody's whispers", listen);
  const element = section(
    "for-you",
    "For you",
    "Worked out on this device, from your films.",
    empty,
    whispers,
    young,
    films,
    model,
  );
  const seen = async (film: Advice, at: number) => {
    await ask((session) => session.add(film.id));
    announce(`${label(film)} marked as seen.`);
    focusAt(films, at, element);
  };
  let learnt: Curve | null = null;
  const showAge = () => {
    const aged = now?.whispers === false ? null : (now?.manifest ?? null);
    const age = aged && youngText(aged, learnt);
    say(young, age ?? "");
    show(young, age !== null && now !== null && now.advice.length > 0);
  };
  return {
    element,
    /** It says how much to expect. */
    showCurve(curve: Curve) {
      learnt = curve;
      showAge();
    },
    update(state: State) {
      const { advice, manifest, films: chosen } = state;
      now = state;
      showAge();
      list(films, advice, (film) => advised(film, films, seen));
      say(empty, emptyText(manifest !== null, chosen.length > 0));
      show(empty, advice.length === 0);
      show(films, advice.length > 0);
      show(whispers, advice.length > 0);
      whispers.setAttribute("aria-checked", String(state.whispers));
      say(model, manifest === null ? "" : modelText(manifest, state.whispers));
    },
  };
}

type AdviceHandler = (film: Advice, at: number) => Promise<void>;

function advised(film: Advice, parent: HTMLElement, seen: AdviceHandler): HTMLElement {
  const button = h(
    "button",
    { type: "button", class: "button small seen", "aria-label": `I have seen ${label(film)}` },
    "Seen",
  );
  const details = h("div", { class: "details" }, otherName(film), genres(film), reason(film));
  return heeding(button, film, parent, seen, titleOf(film), details);
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
function modelText({ epoch }: Manifest, whispers: boolean): string {
  if (!whispers)
    return "By tags alone, such as genres: the list that there would be without anybody's reports.";
  return `From the model of epoch ${epoch}, checked against the server's signature.`;
}
