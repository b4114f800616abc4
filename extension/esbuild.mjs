// Bundles the client into one file (`vscode` is given by the editor), and the overview into the Python package, which
// puts it into reports. `node esbuild.mjs page` builds the overview alone.
import { appendFileSync, readdirSync, readFileSync } from "node:fs";
import { build } from "esbuild";

const ASSETS = "../pyserver/ridgeline/report/assets";

if (process.argv[2] !== "page") {
  await build({
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    bundle: true,
    platform: "node",
    format: "cjs",
    target: "node20",
    external: ["vscode"],
    minify: true,
    sourcemap: false,
    legalComments: "linked",
  });
}

const page = await build({
  entryPoints: ["webview/src/main.ts"],
  outfile: `${ASSETS}/page.js`,
  bundle: true,
  platform: "browser",
  format: "iife",
  target: ["es2022"],
  minify: true,
  sourcemap: false,
  charset: "utf8",
  metafile: true,
});
appendFileSync(`${ASSETS}/page.js`, licences(page.metafile));

/** The licences of what is bundled, for they have to go with every page that is sent; equal texts once. */
function licences(metafile) {
  const packages = Object.keys(metafile.inputs).map(
    (path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1],
  );
  const holders = new Map();
  for (const folder of [...new Set(packages.filter(Boolean))].sort()) {
    const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
    if (!file) throw new Error(`${folder} has no licence file`);
    const text = readFileSync(`${folder}/${file}`, "utf8").replaceAll("*/", "* /").trim();
    const own = text.split("\n").filter((line) => line.startsWith("Copyright"));
    const body = text
      .split("\n")
      .filter((line) => !line.startsWith("Copyright"))
      .join("\n")
      .trim();
    holders.set(body, [...(holders.get(body) ?? []), `${folder.replace(/^.*node_modules\//, "")}: ${own.join(" ")}`]);
  }
  return [...holders].map(([body, names]) => `/*!\n${names.join("\n")}\n\n${body}\n*/\n`).join("");
}
