/** The script of a client's workers. `Client.open` starts it once for each name. */

import type { Line } from "./messages.js";
import { serveAs, type WorkerName } from "./workers.js";

const scope = globalThis as unknown as Line;
// The first message is the name: some bundlers build only workers whose options are literals.
scope.addEventListener("message", ({ data }) => serveAs(data as WorkerName, scope), { once: true });
