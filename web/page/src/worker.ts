/** The script of the page's workers: the three workers of the client, and the desk. */

import { type Line, serve, serveAs, type WorkerName } from "sottovoce-client/workers";
import { createDeskCalls } from "./desk.js";

const scope = globalThis as unknown as Line & { name: WorkerName | "desk" };
if (scope.name === "desk")
  serve(
    scope,
    createDeskCalls((message) => scope.postMessage(message)),
  );
else serveAs(scope.name, scope);
