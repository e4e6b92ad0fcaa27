/**
 * Bundles the page and the widget into the Python package, so that nobody needs Node to run it.
 *
 *     node build.mjs            writes ../src/sottovoce/service/assets
 *     node build.mjs --check    builds elsewhere and fails if the committed files differ
 *
 * The same sources give the same bytes on every machine: no times, no paths, no source maps.
 */
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { ACCOUNTS, bundled } from "./client/bundle.mjs";
import { hpke } from "./hpke.mjs";
import { notices } from "./notices.mjs";
import { widget } from "./widget/bundle.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const page = join(here, "page");
const assets = join(here, "..", "src", "sottovoce", "service", "assets");

/** What each bundle is made of, and how the browser loads it. */
const bundles = [
  { source: "src/main.ts", file: "page.js", format: "esm" },
  { source: "src/worker.ts", file: "worker.js", format: "esm" },
  { source: "src/service-worker.ts", file: "sw.js", format: "iife" },
  { source: "style.css", file: "style.css" },
];

async function bundle(folder, { source, file, format }) {
  await build({
    absWorkingDir: page,
    entryPoints: [source],
    outfile: join(folder, file),
    bundle: true,
    minify: true,
    target: "es2022",
    charset: "utf8",
    legalComments: "none",
    conditions: ["sottovoce-source"],
    plugins: [hpke],
    logLevel: "warning",
    ...(format ? { format } : {}),
  });
}

async function copy(folder, file, changed = (text) => text) {
  const text = await readFile(join(page, file), "utf8");
  await writeFile(join(folder, file), changed(text));
}

/** White space between lines says nothing in these files: no element of theirs is preformatted. */
const squeezed = (text) =>
  `${text
    .replace(/<!--.*?-->/gs, "")
    .replace(/\s*\n\s*/g, "\n")
    .trim()}\n`;

async function buildInto(folder) {
  await mkdir(folder, { recursive: true });
  await Promise.all(bundles.map((each) => bundle(folder, each)));
  await copy(folder, "index.html", squeezed);
  await copy(folder, "icon.svg", squeezed);
  await writeFile(join(folder, "widget.js"), (await widget())["widget.js"]);
  // Apart: the page has no part in it.
  await mkdir(join(folder, "accounts"), { recursive: true });
  await writeFile(join(folder, "accounts", "accounts.js"), (await bundled())[ACCOUNTS]);
  await writeFile(join(folder, "LICENSES.txt"), (await notices("worker.js")).join("\n"));
}

/** Names of files that differ between two folders, or that only one of them has. */
async function differences(one, other) {
  const names = new Set([...(await listed(one)), ...(await listed(other))]);
  const same = await Promise.all([...names].map((name) => sameFile(name, one, other)));
  return [...names].filter((_, at) => !same[at]).sort();
}

async function listed(folder) {
  const found = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = found.filter((each) => each.isFile() && !each.name.startsWith("."));
  return files.map((each) => relative(folder, join(each.parentPath ?? each.path, each.name)));
}

async function sameFile(name, one, other) {
  const read = (folder) => readFile(join(folder, name)).catch(() => null);
  const [left, right] = await Promise.all([read(one), read(other)]);
  return left !== null && right !== null && left.equals(right);
}

async function check() {
  const folder = await mkdtemp(join(tmpdir(), "sottovoce-page-"));
  try {
    await buildInto(folder);
    return await differences(folder, assets);
  } finally {
    await rm(folder, { recursive: true });
  }
}

if (process.argv.includes("--check")) {
  const differing = await check();
  for (const name of differing) {
    console.error(`src/sottovoce/service/assets/${name} is not what web/ builds: npm run build`);
  }
  process.exitCode = differing.length === 0 ? 0 : 1;
} else {
  await buildInto(assets);
}
