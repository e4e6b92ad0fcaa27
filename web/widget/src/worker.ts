/**
 * Starts the client's workers.
 *
 * Browsers start no worker from a script of another origin. So this file contains the script of the
 * workers as text, and starts them from a `blob:` address, unless the page names a copy on its own
 * origin.
 */

/** The text of `sottovoce-worker.js`; the bundler inserts it. */
declare const SOTTOVOCE_WORKER: string;

const BLOCKED_WARNING =
  "sottovoce: a worker failed; does the page's Content-Security-Policy allow `worker-src blob:`?";

interface TrustedTypes {
  createPolicy(
    name: string,
    rules: { createScriptURL: (url: string) => string },
  ): { createScriptURL(url: string): string };
}

export function createStarter(own?: string): () => Worker {
  let url: string | undefined;
  return () => {
    url ??= trustAddress(own ?? createBlobAddress());
    const worker = new Worker(url, { type: "module" });
    worker.addEventListener("error", () => console.error(BLOCKED_WARNING), { once: true });
    return worker;
  };
}

function createBlobAddress(): string {
  return URL.createObjectURL(new Blob([SOTTOVOCE_WORKER], { type: "text/javascript" }));
}

/**
 * Return an address in a form that a page with Trusted Types accepts. The policy is used for this
 * address only.
 */
function trustAddress(url: string): string {
  const { trustedTypes } = globalThis as { trustedTypes?: TrustedTypes };
  const policy = trustedTypes?.createPolicy("sottovoce", { createScriptURL: (address) => address });
  return policy?.createScriptURL(url) ?? url;
}
