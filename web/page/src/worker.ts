/** The script of the page's three workers: both of the client, and the desk. */
import { type Line, serve, serveAs, type WorkerName } from "sottovoce-client/workers";
import { deskCalls } from "./desk.js";

const scope = globalThis as unknown as Line & { name: WorkerName | "desk" };
if (scope.name === "desk")
  serve(
    scope,
    deskCalls((told) => scope.postMessage(told)),
  );
else serveAs(scope.name, scope);
