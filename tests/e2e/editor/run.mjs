// The editor tests: `node tests/e2e/editor/run.mjs`; `RIDGELINE_ONLY=regex` runs the sessions and scenarios that match.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { after } from "node:test";
import { cache, here, root, screenshots, vsix } from "./lib/paths.mjs";

/** Screenshots that the READMEs show; `RIDGELINE_PICTURES=1` makes them. */
const PICTURES = {
  picture: ["docs/images/editor.png", "extension/images/lines.png"],
};

function must(command, args, options) {
  const done = spawnSync(command, args, { stdio: "inherit", ...options });
  if (done.status !== 0) throw new Error(`${command} ${args.join(" ")} failed`);
}

must(join(root, "scripts", "editor.sh"), [cache]);
if (!existsSync(join(root, "extension", "node_modules")))
  must("npm", ["ci", "--no-audit", "--no-fund"], { cwd: join(root, "extension") });
if (!existsSync(vsix)) must("npm", ["run", "package"], { cwd: join(root, "extension") });

for (const name of readdirSync(join(here, "scenarios")).sort()) await import(join(here, "scenarios", name));

after(() => {
  if (!process.env.RIDGELINE_PICTURES) return;
  for (const [name, copies] of Object.entries(PICTURES)) {
    for (const copy of copies) {
      mkdirSync(join(root, copy, ".."), { recursive: true });
      cpSync(join(screenshots, `${name}.png`), join(root, copy));
    }
  }
});
