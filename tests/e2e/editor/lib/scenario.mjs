// Sessions and scenarios. A session is one window on a fresh workspace with its own run store; its scenarios run in it one
// after the other, for opening a window takes longer than most of them. Where one fails, a screenshot and the log are left.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { Editor } from "./editor.mjs";
import { here, python, scratch } from "./paths.mjs";

export { until } from "./until.mjs";

const SCENARIO_MS = 300_000;
const editors = new Map();

/** One editor for all sessions that need the same kind; started by the first of them. */
function shared(name, options) {
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

  /** The folder's settings; a window that is open notices. */
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
 * Registers a session. `setUp(place)` prepares the workspace before the window opens on `file`; `editor` names the kind of
 * editor, with `start` as its options; `workspace` is another folder of the place than `ws`, or a `.code-workspace` file. `scenarios` maps names to bodies, which get the window and the place. Before each,
 * the folder's settings are the default ones, `file` is shown as it is on disk, and nothing lies above it.
 */
export function session(name, options, scenarios) {
  const { setUp, file = "model.py", editor = "plain", start = {}, timeout = SCENARIO_MS, workspace = "ws" } = options;
  const all = Object.entries(scenarios).filter(([title]) => isWanted(title, name));
  if (!all.length) return;
  test(name, async (t) => {
    const place = new Place(name);
    let window;
    t.after(async () => {
      await window?.close().catch(() => undefined);
      if (!process.env.RIDGELINE_KEEP) place.remove();
    });
    await setUp?.(place);
    const server = await shared(editor, start);
    server.machineSettings({ "ridgeline.storage.path": place.store });
    window = await server.open(join(place.folder, workspace), file);
    for (const [index, [title, body]] of all.entries()) {
      await t.test(title, { timeout }, async () => {
        if (index > 0) await window.settle(file);
        try {
          await body(window, place);
        } catch (error) {
          await window.screenshot(`failed-${title.replaceAll(/\W+/g, "-").slice(0, 80)}`).catch(() => undefined);
          console.error(window.log().split("\n").slice(-25).join("\n"));
          // What is unsaved would come back with the window, and the next scenario would fail of it.
          await window.revert().catch(() => undefined);
          await window.load(file).catch(() => undefined);
          throw error;
        }
      });
    }
  });
}

/** `RIDGELINE_ONLY` is a regular expression over the names of scenarios and sessions. */
function isWanted(...names) {
  const only = process.env.RIDGELINE_ONLY;
  return !only || names.some((name) => new RegExp(only, "i").test(name));
}
