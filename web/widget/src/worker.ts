/**
 * Starts the client's workers. A browser starts none from a script of another origin; so theirs is in this
 * file as a text, and is started from a `blob:` address, unless the page names a copy on its own origin.
 */

import type { WorkerName } from "sottovoce-client";

/** All of `sottovoce-worker.js`; put in when this is bundled. */
declare const SOTTOVOCE_WORKER: string;

const BLOCKED =
  "sottovoce: a worker failed; does the page's Content-Security-Policy allow `worker-src blob:`?";

interface TrustedTypes {
  createPolicy(
    name: string,
    rules: { createScriptURL: (url: string) => string },
  ): { createScriptURL(url: string): string };
}

export function starter(own?: string): (name: WorkerName) => Worker {
  let url: string | undefined;
  return (name) => {
    url ??= trusted(own ?? inThisFile());
    const worker = new Worker(url, { type: "module", name });
    worker.addEventListener("error", () => console.error(BLOCKED), { once: true });
    return worker;
  };
}

function inThisFile(): string {
  return URL.createObjectURL(new Blob([SOTTOVOCE_WORKER], { type: "text/javascript" }));
}

/** Where a page demands it (Trusted Types), by a policy that passes these addresses alone. */
function trusted(url: string): string {
  const { trustedTypes } = globalThis as { trustedTypes?: TrustedTypes };
  const policy = trustedTypes?.createPolicy("sottovoce", { createScriptURL: (each) => each });
  return policy?.createScriptURL(url) ?? url;
}
