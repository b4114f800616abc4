// The editor tests: `node tests/e2e/editor/run.mjs`, with `--test-name-pattern=…` before the file for some of them.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { cache, here, root, vsix } from "./lib/paths.mjs";

function must(command, args, options) {
  const done = spawnSync(command, args, { stdio: "inherit", ...options });
  if (done.status !== 0) throw new Error(`${command} ${args.join(" ")} failed`);
}

must(join(root, "scripts", "editor.sh"), [cache]);
if (!existsSync(join(root, "extension", "node_modules")))
  must("npm", ["ci", "--no-audit", "--no-fund"], { cwd: join(root, "extension") });
if (!existsSync(vsix)) must("npm", ["run", "package"], { cwd: join(root, "extension") });

for (const name of readdirSync(join(here, "scenarios")).sort()) await import(join(here, "scenarios", name));
