// A scenario: a fresh workspace with its own run store, one window, and a screenshot and the log where it fails.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { Editor } from "./editor.mjs";
import { here, python, scratch } from "./paths.mjs";

const editors = new Map();

/** One editor for all scenarios that need the same kind; started by the first of them. */
export function shared(name = "plain", options = {}) {
  if (!editors.has(name)) editors.set(name, Editor.start(options));
  return editors.get(name);
}

after(async () => {
  for (const editor of editors.values()) await (await editor.catch(() => undefined))?.stop();
});

export class Place {
  constructor(name) {
    this.folder = scratch(name.replaceAll(/\W+/g, "-").slice(0, 30));
    this.workspace = join(this.folder, "ws");
    this.store = join(this.folder, "runs");
    mkdirSync(join(this.workspace, ".vscode"), { recursive: true });
    this.settings({});
    cpSync(join(here, "fixture", "model.py"), join(this.workspace, "model.py"));
  }

  settings(changes) {
    const all = { "ridgeline.storage.path": this.store, ...changes };
    writeFileSync(join(this.workspace, ".vscode", "settings.json"), JSON.stringify(all));
  }

  write(name, text) {
    mkdirSync(join(this.workspace, name, ".."), { recursive: true });
    writeFileSync(join(this.workspace, name), text);
  }

  /** A finished run of model.py, as the runner would have left it. Returns its folder. */
  storeRun(...options) {
    const args = [join(here, "stored_run.py"), this.workspace, this.store, ...options];
    return execFileSync(python, args, { encoding: "utf8" }).trim();
  }

  remove() {
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
}

/**
 * Registers a scenario. `setUp(place)` prepares the workspace before the window opens; `body` gets the window and the place.
 * `editor` names the kind of editor, with `start` as its options.
 */
export function scenario(
  name,
  { setUp, file = "model.py", editor = "plain", start = {}, timeout = 120_000, viewport },
  body,
) {
  test(name, { timeout }, async () => {
    const place = new Place(name);
    let window;
    try {
      await setUp?.(place);
      window = await (await shared(editor, start)).open(place.workspace, file, { viewport });
      await body(window, place);
    } catch (error) {
      await window?.screenshot(`failed-${name.replaceAll(/\W+/g, "-")}`).catch(() => undefined);
      if (window) console.error(window.log().split("\n").slice(-40).join("\n"));
      throw error;
    } finally {
      await window?.close().catch(() => undefined);
      if (!process.env.RIDGELINE_KEEP) place.remove();
    }
  });
}

/** Waits until `check` returns something true, and returns it. */
export async function until(check, what, timeout = 20_000) {
  const end = Date.now() + timeout;
  let last;
  while (Date.now() < end) {
    last = await check();
    if (last) return last;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail(`not in ${timeout} ms: ${what}`);
}
