/** The scripts that the page may start, and a Trusted Types policy that allows no others. */

/** The only two scripts that this page starts. */
type Script = "/page/worker.js" | "/sw.js";

interface TrustedTypes {
  createPolicy(
    name: string,
    rules: { createScriptURL(path: string): string },
  ): { createScriptURL(path: string): string };
}

const OWN_SCRIPTS: readonly string[] = ["/page/worker.js", "/sw.js"] satisfies Script[];

function checkOwnScript(path: string): string {
  if (!OWN_SCRIPTS.includes(path))
    throw new TypeError(
      `${path} is not a script of this page; only ${OWN_SCRIPTS.join(" and ")} are`,
    );
  return path;
}

const { trustedTypes } = globalThis as { trustedTypes?: TrustedTypes };

const policy = trustedTypes?.createPolicy("sottovoce", { createScriptURL: checkOwnScript });

/** Return the address of a script in a form that the browser accepts. */
export function trustScript(path: Script): string {
  return policy?.createScriptURL(path) ?? checkOwnScript(path);
}
