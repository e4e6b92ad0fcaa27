/** The script of a client's workers. `Client.open` starts it once under each name. */

import type { Line } from "./messages.js";
import { serveAs, type WorkerName } from "./workers.js";

const scope = globalThis as unknown as Line & { name: WorkerName };
serveAs(scope.name, scope);
