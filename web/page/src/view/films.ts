/**
 * The section of films that were seen (to search, add and remove them), and the section of ten
 * recommendations with their reasons.
 */

import type { Manifest } from "sottovoce-client";
import { describeYoungModel } from "../age.js";
import { focusAt, h, setText, setVisible, updateList } from "../dom.js";
import { explainReason } from "../reasons.js";
import type { Advice, Curve, Film, State } from "../state.js";
import { formatTitle } from "../titles.js";
import { formatStart, formatStartDetails } from "../words.js";
import {
  type Actions,
  createButton,
  createDetails,
  createSection,
  createTitle,
  type View,
} from "./parts.js";
import { SearchBox } from "./search.js";

export function createFilmsView({ ask, announce }: Actions): View & { suggested: HTMLElement } {
  const add = async (film: Film) => {
    await ask((session) => session.add(film.id));
    announce(`${formatTitle(film)} added. Your recommendations are new.`);
  };
  const search = new SearchBox(
    (text) => ask((session) => session.search(text), false),
    (film) => void add(film),
  );
  const filmList = h("ul", { id: "films", class: "chips" });
  const suggestionList = h("ul", {
    id: "suggestions",
    class: "chips offered",
    "aria-label": "Suggestions",
  });
  const suggestionSection = createSection(
    "known",
    "Perhaps you know these",
    "What many have seen.",
    suggestionList,
  );
  const remove = async (film: Film, at: number) => {
    await ask((session) => session.remove(film.id));
    announce(`${formatTitle(film)} removed.`);
    focusAt(filmList, at, search.input);
  };
  const choose = async (film: Film, at: number) => {
    await add(film);
    focusAt(suggestionList, at, search.input);
  };

  return {
    element: createSection(
      "seen",
      "Films you have seen",
      "They stay in this browser.",
      search.element,
      filmList,
    ),
    /**
     * Section of suggestions. It is placed after the recommendations: before them, it would push
     * them off the screen of a phone.
     */
    suggested: suggestionSection,
    update({ films, suggestions, searchable, agreed }: State) {
      search.setCatalogueReady(searchable);
      updateList(filmList, films, (film) => createChip(film, filmList, remove));
      updateList(suggestionList, suggestions, (film) =>
        createSuggestion(film, suggestionList, choose),
      );
      setVisible(filmList, films.length > 0);
      // Suggestions are for beginners. Anyone who takes part has begun.
      setVisible(suggestionSection, suggestions.length > 0 && !agreed);
    },
  };
}

type Handler = (film: Film, at: number) => Promise<void>;

function createChip(film: Film, parent: HTMLElement, remove: Handler): HTMLElement {
  const mark = h("span", { "aria-hidden": "true" }, "×");
  const button = h("button", { type: "button", "aria-label": `Remove ${formatTitle(film)}` }, mark);
  return createListItem(button, film, parent, remove, h("span", {}, formatTitle(film)));
}

function createSuggestion(film: Film, parent: HTMLElement, choose: Handler): HTMLElement {
  const mark = h("span", { "aria-hidden": "true" }, "+ ");
  return createListItem(
    h("button", { type: "button" }, mark, formatTitle(film)),
    film,
    parent,
    choose,
  );
}

/** Create a list item with a button for its film. */
function createListItem<F extends Film>(
  button: HTMLElement,
  film: F,
  parent: HTMLElement,
  act: (film: F, at: number) => Promise<void>,
  ...children: Node[]
): HTMLElement {
  const item = h("li", {}, ...children, button);
  button.addEventListener("click", () => void act(film, [...parent.children].indexOf(item)));
  return item;
}

export function createAdviceView({ ask, announce }: Actions) {
  const films = h("ol", { id: "recommendations", class: "advice" });
  const empty = h("p", { id: "no-recommendations", class: "empty" });
  const ageNote = h("p", { id: "young", class: "young" });
  const sourceNote = h("p", { id: "model", class: "note" });
  const startNote = h("p", { id: "start", class: "note" });
  const source = createDetails("source", "About this list", sourceNote, startNote);
  let now: State | null = null;
  const switchWhispers = () => ask((session) => session.setWhispers(now?.whispers === false));
  const attributes = { id: "whispers", role: "switch", class: "switch", "aria-checked": "true" };
  const whispers = createButton(attributes, "With everybody's whispers", switchWhispers);
  const element = createSection(
    "for-you",
    "For you",
    "Worked out on this device.",
    empty,
    whispers,
    ageNote,
    films,
    source,
  );
  const markSeen = async (film: Advice, at: number) => {
    await ask((session) => session.add(film.id));
    announce(`${formatTitle(film)} marked as seen.`);
    focusAt(films, at, element);
  };
  let latestCurve: Curve | null = null;
  const showAge = () => {
    const model = now?.whispers === false ? null : (now?.manifest ?? null);
    const note = model && describeYoungModel(model, latestCurve);
    setText(ageNote, note ?? "");
    setVisible(ageNote, note !== null && now !== null && now.advice.length > 0);
  };
  return {
    element,
    /** Use the learning curve, from which the note about a young model is made. */
    showCurve(curve: Curve) {
      latestCurve = curve;
      showAge();
    },
    update(state: State) {
      const { advice, manifest, films: chosen } = state;
      now = state;
      showAge();
      updateList(films, advice, (film) => createAdvice(film, films, markSeen));
      setText(empty, formatEmpty(manifest !== null, chosen.length > 0));
      setVisible(empty, advice.length === 0);
      setVisible(films, advice.length > 0);
      setVisible(whispers, advice.length > 0);
      whispers.setAttribute("aria-checked", String(state.whispers));
      setVisible(source, manifest !== null);
      setText(sourceNote, manifest === null ? "" : formatSource(manifest, state.whispers));
      const start = manifest?.start ?? null;
      setVisible(startNote, start !== null && state.whispers);
      setText(
        startNote,
        start === null ? "" : `${formatStart(start)}. ${formatStartDetails(start)}.`,
      );
    },
  };
}

type AdviceHandler = (film: Advice, at: number) => Promise<void>;

function createAdvice(film: Advice, parent: HTMLElement, markSeen: AdviceHandler): HTMLElement {
  const button = h(
    "button",
    {
      type: "button",
      class: "button small seen",
      "aria-label": `I have seen ${formatTitle(film)}`,
    },
    "Seen",
  );
  return createListItem(button, film, parent, markSeen, createTitle(film), createReason(film));
}

function createReason({ reason }: Advice): HTMLElement {
  const parts = reason === null ? [] : explainReason(reason);
  const words = parts.map(({ isFilm, text }) => (isFilm ? h("cite", {}, text) : text));
  return h("span", { class: "reason" }, ...words);
}

function formatEmpty(model: boolean, chosen: boolean): string {
  if (!model) return "The model is on its way.";
  return chosen
    ? "This model knows none of your films yet."
    : "Choose a film or two that you have seen, and ten for you appear here.";
}

/** Describe the model on which the recommendations are based. */
function formatSource({ epoch, start }: Manifest, whispers: boolean): string {
  if (!whispers && start !== null) return "By tags alone, such as genres.";
  if (!whispers)
    return "By tags alone, such as genres: the list that there would be without anybody's reports.";
  return `From the model of epoch ${epoch}, checked against the server's signature.`;
}
