/** The worker: the whole client lives here, so that sealing a batch never freezes the page. */
import type { Asked, FromWorker } from "./messages.js";
import { RequestHandler } from "./work/requests.js";

const tell = (message: FromWorker) => postMessage(message);
const requests = new RequestHandler(tell);

addEventListener("message", async ({ data }: MessageEvent<Asked>) =>
  tell(await requests.answer(data)),
);
