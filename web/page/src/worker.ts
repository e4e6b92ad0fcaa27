/** The worker: the whole client lives here, so that sealing a batch never freezes the page. */
import type { Asked, FromWorker } from "./messages.js";
import { Desk } from "./work/desk.js";

const tell = (message: FromWorker) => postMessage(message);
const desk = new Desk(tell);

addEventListener("message", async ({ data }: MessageEvent<Asked>) => tell(await desk.answer(data)));
