/** The MIT and BSD licences ask for their texts wherever the code goes. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));

/** Every package whose code is in the bundles of the client and the page, beside our own. */
const HPKE = ["@hpke/core", "@hpke/common"];
/** And in that of accounts. */
export const VOPRF = ["@cloudflare/voprf-ts", "@noble/curves", "@noble/hashes"];

/** What must be said of each of them in the file `bundle`, or beside it: one text for each licence. */
export async function notices(bundle, packages = HPKE) {
  const groups = new Map();
  for (const { name, text } of await Promise.all(packages.map(licence))) {
    const terms = text.replace(COPYRIGHT, "");
    groups.set(terms, [...(groups.get(terms) ?? []), { name, text }]);
  }
  return [...groups.values()].map((group) => {
    const names = group.map(({ name }) => name).join(" and ");
    const copyrights = new Set(group.flatMap(({ text }) => text.match(COPYRIGHT) ?? []));
    const text = group[0].text.replace(COPYRIGHT, [...copyrights].join("\n"));
    return `${bundle} contains ${names}:\n\n${text}\n`;
  });
}

const COPYRIGHT = /^Copyright \(c\).*$/m;

async function licence(name) {
  const root = join(here, "node_modules", name);
  const { version, license } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const [file = ""] = (await readdir(root)).filter((each) => each.startsWith("LICENSE"));
  const text = (await readFile(join(root, file), "utf8")).trim();
  return { name: `${name} ${version} (${license})`, text };
}
