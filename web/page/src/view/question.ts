/** A dialog that asks a question. */

import { h } from "../dom.js";
import { createButton } from "./parts.js";

/** A question, with the texts of its two buttons. */
export interface Question {
  id: string;
  title: string;
  content: readonly Node[];
  yes: string;
  no: string;
  /** Whether a yes cannot be undone. The focus is then on the button for no. */
  isFinal?: boolean;
  /** Returns whether a yes is possible now. If not, the page must show why. */
  canAccept?: () => boolean;
}

/**
 * Ask a question, and resolve with the answer. Escape means no. The browser restores the focus
 * afterwards.
 */
export function askQuestion(question: Question): Promise<boolean> {
  return new Promise((resolve) => {
    const { dialog, answer } = createDialog(question);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer());
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

function createDialog(question: Question): { dialog: HTMLDialogElement; answer: () => boolean } {
  let isAccepted = false;
  const close = (yes: boolean) => {
    if (yes && !(question.canAccept?.() ?? true)) return;
    isAccepted = yes;
    dialog.close();
  };
  const dialog = h(
    "dialog",
    { id: question.id, "aria-labelledby": `${question.id}-title` },
    h("h2", { id: `${question.id}-title` }, question.title),
    h("div", { class: "words", tabindex: 0 }, ...question.content),
    createButtons(question, close),
  );
  return { dialog, answer: () => isAccepted };
}

function createButtons({ id, yes, no, isFinal = false }: Question, close: (yes: boolean) => void) {
  const kind = isFinal ? "button grave" : "button main";
  return h(
    "div",
    { class: "buttons" },
    createButton({ id: `${id}-no`, class: "button", autofocus: isFinal }, no, () => close(false)),
    createButton({ id: `${id}-yes`, class: kind }, yes, () => close(true)),
  );
}
