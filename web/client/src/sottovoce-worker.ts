/** The script of all workers of a client: `Client.open` starts it under different names. */

import type { Line } from "./messages.js";
import { serveAs, type WorkerName } from "./workers.js";

const scope = globalThis as unknown as Line & { name: WorkerName };
serveAs(scope.name, scope);
