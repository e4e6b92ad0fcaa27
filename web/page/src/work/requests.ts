/** Takes the page's questions and has them answered. */
import type { Answered, Answers, Asked, Event, Request, RequestOf } from "../messages.js";
import { Loop } from "./loop.js";
import { Session } from "./session.js";
import { troubleOf } from "./trouble.js";

/** One for each page. */
export class RequestHandler {
  readonly #tell: (event: Event) => void;
  readonly #session: Promise<Session>;
  readonly #loop: Loop;
  #opened: (session: Session) => void = () => {};

  constructor(tell: (event: Event) => void) {
    this.#tell = tell;
    this.#session = new Promise((resolve) => {
      this.#opened = resolve;
    });
    this.#loop = new Loop(async () => (await this.#session).look());
  }

  /** Every question gets exactly one answer, also if it fails. */
  async answer({ number, request }: Asked): Promise<Answered> {
    try {
      return { kind: "answer", number, value: await this.#handle(request) };
    } catch (error) {
      return { kind: "failed", number, trouble: troubleOf(error) };
    }
  }

  async #handle(request: Request): Promise<Answers[Request["kind"]]> {
    if (request.kind === "open") await this.#open(request);
    else if (request.kind === "conditions") this.#loop.meet(request);
    else if (request.kind === "search") return (await this.#session).search(request.text);
    else await this.#change(request);
    if (WAKING.has(request.kind)) this.#loop.wake();
    return null;
  }

  async #open(request: RequestOf<"open">): Promise<void> {
    const session = await Session.open(request, this.#tell);
    await session.publish();
    this.#opened(session);
  }

  async #change(
    request: Exclude<Request, { kind: "open" | "conditions" | "search" }>,
  ): Promise<void> {
    const session = await this.#session;
    switch (request.kind) {
      case "add":
        return session.add(request.id);
      case "remove":
        return session.remove(request.id);
      case "agree":
        return session.agree(request.terms, request.limit);
      case "takePart":
        return session.takePart(request.on);
      case "setLimit":
        return session.setLimit(request.limit);
      case "acceptTerms":
        return session.acceptTerms(request.terms);
      case "forget":
        return session.forget();
    }
  }
}

/** After these the next look should not wait for its time. */
const WAKING: ReadonlySet<Request["kind"]> = new Set([
  "agree",
  "takePart",
  "setLimit",
  "acceptTerms",
  "forget",
]);
