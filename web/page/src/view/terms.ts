/** What she agrees to before anything leaves: asked once, in plain words. */
import { h } from "../dom.js";
import { DEFAULT_EPOCHS, limitFor } from "../limits.js";
import type { Explained } from "../messages.js";
import { oddsSentence, ratioSentence, togetherSentence } from "../odds.js";
import { reportsText } from "../sentences.js";
import { asked } from "./dialog.js";
import { limitField } from "./limit.js";

/** Her lifetime limit if she says yes, else null. */
export async function askForConsent(manifest: Explained, spent: number): Promise<number | null> {
  const field = limitField({
    id: "terms-limit",
    value: spent + limitFor(DEFAULT_EPOCHS, manifest),
    spent,
    price: manifest,
  });
  const yes = await asked({
    id: "terms-dialog",
    title: "Take part?",
    content: [termsList(manifest), field.element],
    yes: "Take part",
    no: "Not now",
    valid: () => field.read() !== null,
  });
  return yes ? field.read() : null;
}

function termsList(manifest: Explained): HTMLElement {
  const { epsilon, reports, leastClients, odds } = manifest;
  const together = togetherSentence(epsilon, reports);
  return h(
    "ul",
    { class: "terms" },
    term(
      "What leaves.",
      `${reportsText(reports)} in every epoch, each of four bytes and sealed by itself. Your films never leave.`,
    ),
    term("What one says.", `${oddsSentence(odds)} ${ratioSentence(epsilon)}`),
    term("Among whom.", crowdSentence(leastClients)),
    together === null ? null : term("What they say together.", together),
    term(
      "What cannot be undone.",
      "A report that has left can never be called back, and what it cost stays spent. You can stop at any time.",
    ),
    term(
      "What you trust.",
      "That proxy and server are not in league, and that this page, which the proxy sent you, is what it seems.",
    ),
  );
}

function term(name: string, words: string): HTMLElement {
  return h("li", {}, h("strong", {}, name), " ", words);
}

/** Among how many people a report is mixed. */
export function crowdSentence(least: number): string {
  if (least === 1)
    return "Nobody for certain: this proxy also passes on what came from one person alone.";
  return (
    `The proxy mixes everybody's reports and passes them on only if at least ` +
    `${least.toLocaleString("en")} people took part.`
  );
}

/** Whether she agrees to terms that are worse than those she agreed to. */
export function askForNewTerms(worse: readonly string[]): Promise<boolean> {
  return asked({
    id: "new-terms-dialog",
    title: "Agree to the new terms?",
    content: [
      h("p", {}, "The server signed these terms. Against those you agreed to before:"),
      h("ul", { class: "terms" }, ...worse.map((each) => h("li", {}, each))),
      h("p", {}, "If you do not agree, nothing is sent and recommendations go on as they are."),
    ],
    yes: "Agree to the new terms",
    no: "Do not agree",
    grave: true,
  });
}
