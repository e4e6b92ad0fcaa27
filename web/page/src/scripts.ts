/** The only two scripts that this page ever starts, named in the one policy that may start them. */

/** Paths of the page's own server. */
export type Script = "/page/worker.js" | "/sw.js";

interface TrustedTypes {
  createPolicy(
    name: string,
    rules: { createScriptURL(path: string): string },
  ): { createScriptURL(path: string): string };
}

const OWN: readonly string[] = ["/page/worker.js", "/sw.js"] satisfies Script[];

function own(path: string): string {
  if (!OWN.includes(path)) throw new TypeError(`${path} is no script of this page`);
  return path;
}

const { trustedTypes } = globalThis as { trustedTypes?: TrustedTypes };
const policy = trustedTypes?.createPolicy("sottovoce", { createScriptURL: own });

/** An address that the browser will accept as a script's. */
export function script(path: Script): string {
  return policy?.createScriptURL(path) ?? own(path);
}
