/** The page's end of the line to its worker. */
import type {
  Answers,
  Ask,
  Asked,
  Event,
  FromWorker,
  Request,
  RequestOf,
  Trouble,
} from "./messages.js";

/** A question that could not be answered, with the words for whoever asked. */
export class Failed extends Error {
  constructor(readonly trouble: Trouble) {
    super(trouble.text);
    this.name = "Failed";
  }
}

/** What a worker must be able to do. */
export interface Line {
  postMessage(message: Asked): void;
  addEventListener(kind: "message", listener: (event: { data: FromWorker }) => void): void;
}

interface Pending {
  resolve(value: Answers[Request["kind"]]): void;
  reject(reason: Failed): void;
}

/** Numbers the questions and brings each answer to whoever asked. */
export function connect(line: Line, hear: (event: Event) => void): Ask {
  const pending = new Map<number, Pending>();
  let asked = 0;
  line.addEventListener("message", ({ data }) => {
    if (data.kind === "answer") taken(pending, data.number)?.resolve(data.value);
    else if (data.kind === "failed") taken(pending, data.number)?.reject(new Failed(data.trouble));
    else hear(data);
  });
  return <K extends Request["kind"]>(request: RequestOf<K>) =>
    new Promise<Answers[K]>((resolve, reject) => {
      asked += 1;
      pending.set(asked, { resolve: resolve as Pending["resolve"], reject });
      line.postMessage({ number: asked, request });
    });
}

function taken(pending: Map<number, Pending>, number: number): Pending | undefined {
  const found = pending.get(number);
  pending.delete(number);
  return found;
}
