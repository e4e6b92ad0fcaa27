/** The script of the page's workers: the three workers of the client, and the desk. */

import { type Line, serve, serveAs, type WorkerName } from "sottovoce-client/workers";
import { createDeskCalls } from "./desk.js";

const scope = globalThis as unknown as Line;

function start(name: WorkerName | "desk"): void {
  if (name === "desk")
    serve(
      scope,
      createDeskCalls((message) => scope.postMessage(message)),
    );
  else serveAs(name, scope);
}

// The first message is the name of the worker.
scope.addEventListener("message", ({ data }) => start(data), { once: true });
