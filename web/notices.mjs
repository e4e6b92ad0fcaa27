/** The MIT licence asks for its text wherever the code goes. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));

/** Every package whose code is in a bundle, beside our own. */
const packages = ["@hpke/core", "@hpke/common"];

/** What must be said of each of them in the file `bundle`, or beside it. */
export function notices(bundle) {
  return Promise.all(packages.map((name) => notice(bundle, name)));
}

async function notice(bundle, name) {
  const root = join(here, "node_modules", name);
  const { version, license } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const text = await readFile(join(root, "LICENSE"), "utf8");
  return `${bundle} contains ${name} ${version} (${license}):\n\n${text.trim()}\n`;
}
