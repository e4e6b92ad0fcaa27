/** What is accepted before anything leaves: asked once, in plain words. */
import { type Amount, limitFor } from "sottovoce-client";
import { h } from "../dom.js";
import type { Offer, State } from "../messages.js";
import { termsInWords } from "../terms.js";
import { asked } from "./dialog.js";
import { epsilonFigure } from "./epsilon.js";
import { limitField, meaningText } from "./limit.js";

/** So many epochs are offered to begin with. */
const DEFAULT_EPOCHS = 10;

/** The lifetime limit that was chosen with a yes, else null. */
export async function askForConsent(
  offer: Offer,
  gone: Amount,
  jitter: number,
): Promise<number | null> {
  const value = limitFor(Math.min(DEFAULT_EPOCHS, offer.turns), gone, offer.terms);
  const field = limitField({ id: "terms-limit", value, gone, offer });
  const yes = await asked({
    id: "terms-dialog",
    title: "Take part?",
    content: [termsList(offer, jitter), explained("terms-epsilon", offer), field.element],
    yes: "Take part",
    no: "Not now",
    valid: () => field.read() !== null,
  });
  return yes ? field.read() : null;
}

function termsList(offer: Offer, jitter: number): HTMLElement {
  const terms = termsInWords(offer, jitter);
  return h(
    "ul",
    { class: "terms" },
    ...terms.map(({ name, words }) => h("li", {}, h("strong", {}, name), " ", words)),
  );
}

function explained(id: string, offer: Offer): HTMLElement {
  return h(
    "details",
    { class: "explained" },
    h("summary", {}, "What epsilon means, in a picture"),
    epsilonFigure(id, offer),
  );
}

/** Whether terms are accepted that are worse than those accepted before; all of them are shown. */
export function askForNewTerms(
  worse: readonly string[],
  offer: Offer,
  { limit, gone }: Pick<State, "limit" | "gone">,
  jitter: number,
): Promise<boolean> {
  return asked({
    id: "new-terms-dialog",
    title: "Accept the new terms?",
    content: [
      h("p", {}, "The server signed these terms. Against those you accepted before:"),
      h("ul", { class: "terms", id: "worse-terms" }, ...worse.map((each) => h("li", {}, each))),
      h("p", {}, "All of them:"),
      termsList(offer, jitter),
      explained("new-terms-epsilon", offer),
      h("p", {}, `Your lifetime limit of ${limit}: ${meaningText(limit, gone, offer)}`),
      h(
        "p",
        {},
        "If you do not accept them, nothing is sent and recommendations go on as they are.",
      ),
    ],
    yes: "Accept the new terms",
    no: "Do not accept",
    grave: true,
  });
}
