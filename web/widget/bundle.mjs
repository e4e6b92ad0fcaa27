/**
 * The widget in one file, with the client's worker in it as it is:
 *
 *     node bundle.mjs [FOLDER]    writes widget.js and sottovoce-worker.js into dist, or FOLDER
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, transform } from "esbuild";
import { bundled } from "../client/bundle.mjs";

/**
 * The comment with the licences of other packages at the beginning of the worker. The copy of the
 * worker in widget.js has none, since the same text lies in a file beside it: LICENSES.txt of a
 * proxy, sottovoce-worker.js of the package.
 */
const NOTICES = /^\/\*!.*?\*\/\s*/s;

/** By the file's name. */
export async function widget() {
  const { "sottovoce-worker.js": worker } = await bundled();
  const style = await readFile(new URL("src/style.css", import.meta.url), "utf8");
  const { code } = await transform(style, { loader: "css", minify: true });
  const { outputFiles } = await build({
    absWorkingDir: fileURLToPath(new URL(".", import.meta.url)),
    entryPoints: ["src/widget.ts"],
    define: {
      SOTTOVOCE_STYLE: JSON.stringify(code),
      SOTTOVOCE_WORKER: JSON.stringify(worker.replace(NOTICES, "")),
      // The client's own way to start workers is not used here. With it, bundlers of pages would
      // look for the script of its workers.
      "import.meta.url": "''",
    },
    // Without declarations of fields that constructors assign anyway.
    tsconfigRaw: { compilerOptions: { useDefineForClassFields: false } },
    pure: ["Object.keys"], // lists that nobody here reads
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    charset: "utf8",
    legalComments: "none",
    conditions: ["sottovoce-source"],
    banner: {
      js: "/*! Apache-2.0. Licences of other packages: LICENSES.txt or sottovoce-worker.js */",
    },
    write: false,
    logLevel: "warning",
  });
  return { "widget.js": outputFiles[0].text, "sottovoce-worker.js": worker };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = process.argv[2] ?? "dist";
  await mkdir(folder, { recursive: true });
  for (const [name, text] of Object.entries(await widget())) {
    await writeFile(join(folder, name), text);
  }
}
