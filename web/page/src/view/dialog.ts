/** Questions that must be answered before anything goes on. */
import { h } from "../dom.js";

/** What is asked, and the words of the two buttons. */
export interface Question {
  id: string;
  title: string;
  content: readonly Node[];
  yes: string;
  no: string;
  /** Yes cannot be undone: the focus begins at no. */
  grave?: boolean;
  /** Whether yes can be said now; where not, the page shows why by itself. */
  valid?: () => boolean;
}

/** Resolves when it is answered; Escape means no. The browser gives the focus back. */
export function asked(question: Question): Promise<boolean> {
  return new Promise((resolve) => {
    const { dialog, answer } = built(question);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer());
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

function built(question: Question): { dialog: HTMLDialogElement; answer: () => boolean } {
  let said = false;
  const end = (yes: boolean) => {
    if (yes && !(question.valid?.() ?? true)) return;
    said = yes;
    dialog.close();
  };
  const dialog = h(
    "dialog",
    { id: question.id, "aria-labelledby": `${question.id}-title` },
    h("h2", { id: `${question.id}-title` }, question.title),
    h("div", { class: "words", tabindex: 0 }, ...question.content),
    buttons(question, end),
  );
  return { dialog, answer: () => said };
}

function buttons({ id, yes, no, grave = false }: Question, end: (yes: boolean) => void) {
  const kind = grave ? "button grave" : "button main";
  return h(
    "div",
    { class: "buttons" },
    h(
      "button",
      {
        type: "button",
        id: `${id}-no`,
        class: "button",
        autofocus: grave,
        onclick: () => end(false),
      },
      no,
    ),
    h("button", { type: "button", id: `${id}-yes`, class: kind, onclick: () => end(true) }, yes),
  );
}
