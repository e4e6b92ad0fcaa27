/** The MIT and BSD licences ask for their texts wherever the code goes. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));

/** Every package whose code is in the bundles of the client and the page, beside our own. */
const HPKE = ["@hpke/core", "@hpke/common"];
/** And in that of accounts. */
export const VOPRF = ["@cloudflare/voprf-ts", "@noble/curves", "@noble/hashes"];

/** What must be said of each of them in the file `bundle`, or beside it. */
export function notices(bundle, packages = HPKE) {
  return Promise.all(packages.map((name) => notice(bundle, name)));
}

async function notice(bundle, name) {
  const root = join(here, "node_modules", name);
  const { version, license } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const [file = ""] = (await readdir(root)).filter((each) => each.startsWith("LICENSE"));
  const text = await readFile(join(root, file), "utf8");
  return `${bundle} contains ${name} ${version} (${license}):\n\n${text.trim()}\n`;
}
