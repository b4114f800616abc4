// Real runs: programs are profiled on the CPU of this machine, from the click to the lens.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { here, python, root } from "../lib/paths.mjs";
import { session, until } from "../lib/scenario.mjs";
import { processes } from "../lib/workbench.mjs";

/** A run takes some ten seconds of a processor; on a busy machine that is minutes. */
const RUN_MS = 240_000;
const GRANDCHILD = "signal.SIG_IGN); time.sleep(600)";

/** Goes on until it is stopped, with a grandchild that ignores SIGINT. */
const STUBBORN = `
import subprocess, sys, time, torch
subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGINT, ${GRANDCHILD}"])
torch.set_num_threads(1)
a = torch.randn(64, 64)
print("begun", flush=True)
while True:
    a = (a @ a).tanh()
    time.sleep(0.01)
`;

/** Says how it was run, then computes a little. */
const ECHO = `
import json, os, sys, torch
said = {"argv": sys.argv, "cwd": os.getcwd(), "name": __name__, "TOKEN": os.environ.get("TOKEN"), "FILE": os.environ.get("FILE")}
torch.set_num_threads(1)
with open("echo.tmp", "w") as file:
    json.dump(said, file)
os.replace("echo.tmp", "echo.json")
a = torch.randn(64, 64)
for _ in range(60):
    a = (a @ a).tanh()
`;

const TEST = `
import torch

class TestProduct:
    def test_tanh(self):
        a = torch.randn(64, 64)
        for _ in range(60):
            a = (a @ a).tanh()
        assert a.shape == (64, 64)

    def test_other(self):
        raise AssertionError("not this one")
`;

const LAUNCH = {
  version: "0.2.0",
  configurations: [
    {
      name: "Echo as module",
      type: "debugpy",
      request: "launch",
      module: "pkg.echo",
      args: ["--x", "a b"],
      env: { TOKEN: "from launch.json" },
    },
  ],
};

function setUp(place) {
  cpSync(join(here, "fixture", "compiled.py"), join(place.workspace, "compiled.py"));
  cpSync(join(root, "examples", "slow_habits.py"), join(place.workspace, "slow_habits.py"));
  place.write("stubborn.py", STUBBORN);
  place.write("broken.py", 'import torch\nprint("so far")\nraise ValueError("no such dataset")\n');
  place.write("needs.py", "import torch\nimport not_installed_here\n");
  place.write("idle.py", "import torch\nprint(1 + 1)\n");
  place.write("sub/echo.py", ECHO);
  place.write("pkg/__init__.py", "");
  place.write("pkg/echo.py", ECHO);
  place.write("test_product.py", TEST);
  place.write(".env", "FILE=from the file\nTOKEN=overridden\n");
  place.write(".vscode/launch.json", JSON.stringify(LAUNCH));
}

const clickProfile = (window) =>
  window.page.locator(".editor-actions a[aria-label^='Profile This File']").first().click();
const isOver = (window) => window.toast("Profiling").waitFor({ state: "detached", timeout: RUN_MS });
/** The editor's own helpers run in the workspace too; what we look for are interpreters. */
const ofRun = (place) =>
  processes().filter(
    ({ command, cwd }) => (cwd === place.workspace && /^\S*python/.test(command)) || command.includes(GRANDCHILD),
  );
const nothingLeft = (place, ms) =>
  until(() => ofRun(place).length === 0, "no process of the run", ms).catch(() => assert.deepEqual(ofRun(place), []));
const shows = (window, pattern) =>
  until(async () => pattern.test(await window.output().catch(() => "")), String(pattern), RUN_MS);

/** One-based number of the first line of a file that has `part`. */
const lineOf = (place, name, part) =>
  readFileSync(join(place.workspace, name), "utf8")
    .split("\n")
    .findIndex((line) => line.includes(part)) + 1;

/** Waits until a lens with a time stands above a line that matches. */
const lensAbove = (window, line) =>
  until(async () => {
    const shown = await window.lens("/step").filter({ visible: true }).all();
    const below = await Promise.all(shown.map((lens) => window.lineBelow(lens).catch(() => "")));
    return below.some((text) => line.test(text));
  }, `a lens above ${line}`);

session(
  "real runs",
  { setUp, file: "compiled.py", timeout: 600_000 },
  {
    "click, and the lines of a compiled program show their time; to the generated module and back": async (
      window,
      place,
    ) => {
      await window.ready();
      const clicked = Date.now();
      await clickProfile(window);
      await window.toast("Profiling compiled.py").waitFor();
      console.log(`# feedback ${Date.now() - clicked} ms after the click`);
      await isOver(window);
      await window.lens("/step").first().waitFor({ state: "attached" });
      console.log(`# first lens ${Math.round((Date.now() - clicked) / 1000)} s after the click`);
      await window.hidePanel();
      const line = lineOf(place, "compiled.py", "torch.tanh(hidden)");
      await window.goToLine(line, 26);
      await lensAbove(window, /torch\.tanh\(hidden\)/);
      await window.screenshot("profiled");
      await window.page.keyboard.press("F12");
      const back = window.lens("from compiled.py").filter({ visible: true }).first();
      const peek = window.page.locator(".peekview-widget .monaco-list-row.focused");
      await peek.or(back).first().waitFor();
      // With several places the editor offers them.
      if (await peek.isVisible()) await peek.dblclick();
      await back.waitFor();
      await window.screenshot("profiled-generated");
      await back.click();
      await until(
        async () => (await window.peeks()) || (await window.tabs()).active.startsWith("compiled.py"),
        "the way back",
      );
    },

    "an example: lens, hover, Problems, output, the hottest line and the tree": async (window, place) => {
      await window.openFile("slow_habits.py");
      await clickProfile(window);
      await window.toast("Profiling slow_habits.py").waitFor();
      await isOver(window);
      await window.press(window.toast("Hottest Line"), "Hottest Line");
      await until(async () => !(await window.position()).startsWith("Ln 1,"), "the hottest line");
      await shows(window, /slow_habits\.py/);
      const findings = (await window.problems()).join("\n");
      assert.match(findings, /data-loading|single-tensor-optimizer|hidden-sync/);
      await window.screenshot("example-problems");
      await window.hidePanel();
      await window.goToLine(lineOf(place, "slow_habits.py", "F.relu(layer(x))"), 24);
      await lensAbove(window, /F\.relu\(layer\(x\)\)/);
      const hover = await window.hover("F.relu(layer(x))", "relu");
      await hover.filter({ hasText: "/step" }).first().waitFor();
      await window.screenshot("example-hover");
      await window.page.keyboard.press("Escape");
      await window.command("Ridgeline: Show Hot Spots");
      await until(async () => /mm/.test((await window.tree()).join("\n")), "the operators in the tree");
      await window.screenshot("example-tree");
      await window.command("View: Show Explorer");
    },

    "a second click offers to run again; cancel leaves no process": async (window, place) => {
      await window.openFile("stubborn.py");
      await clickProfile(window);
      await shows(window, /begun/);
      await clickProfile(window);
      const second = window.toast("One run at a time");
      await second.waitFor();
      await window.screenshot("second-click");
      assert.ok(ofRun(place).length > 1);
      await window.press(second, "Cancel and Run Again");
      await until(async () => !/begun/.test(await window.output()), "the first run's output is gone", RUN_MS);
      await shows(window, /begun/);
      await window.press(window.toast("Profiling stubborn.py"), "Cancel");
      await isOver(window);
      await nothingLeft(place, 30_000);
    },

    "killing the server ends the run too": async (window, place) => {
      await window.openFile("stubborn.py");
      await clickProfile(window);
      await shows(window, /begun/);
      for (const pid of window.serverProcesses()) process.kill(pid, "SIGKILL");
      await nothingLeft(place, 30_000);
    },

    "a program that fails is told with its error, and what it printed": async (window) => {
      await window.openFile("broken.py");
      await clickProfile(window);
      const toast = window.toast(/no such dataset|ValueError/);
      await toast.waitFor({ timeout: RUN_MS });
      await window.screenshot("failed");
      await window.press(toast, "Show Output");
      await shows(window, /so far[\s\S]*no such dataset/);
    },

    "a module that is missing is named": async (window) => {
      await window.openFile("needs.py");
      await clickProfile(window);
      await window.toast("not_installed_here").waitFor({ timeout: RUN_MS });
      await window.screenshot("module-missing");
    },

    "a program that computes nothing is told so": async (window) => {
      await window.openFile("idle.py");
      await clickProfile(window);
      await window.toast(/The program ended, and nothing was recorded\./).waitFor({ timeout: RUN_MS });
      await isOver(window);
      await window.screenshot("nothing-recorded");
    },

    "arguments, folder, environment and env file of the settings reach the program; an edit is saved first": async (
      window,
      place,
    ) => {
      place.settings({
        "ridgeline.run.args": ["--data", "${workspaceFolder}/d"],
        "ridgeline.run.cwd": "${fileDirname}",
        "ridgeline.run.env": { TOKEN: "from the settings" },
        "ridgeline.run.envFile": "${workspaceFolder}/.env",
      });
      await window.openFile("sub/echo.py");
      await window.typeAt(1, 1, "edited = True\n");
      await window.command("Ridgeline: Profile This File");
      const echo = join(place.workspace, "sub", "echo.json");
      await until(() => existsSync(echo), "the program ran", RUN_MS);
      await isOver(window);
      const said = JSON.parse(readFileSync(echo, "utf8"));
      assert.deepEqual(said.argv.slice(1), ["--data", join(place.workspace, "d")]);
      assert.equal(said.cwd, join(place.workspace, "sub"));
      assert.deepEqual([said.TOKEN, said.FILE, said.name], ["from the settings", "from the file", "__main__"]);
      assert.match(readFileSync(join(place.workspace, "sub", "echo.py"), "utf8"), /^edited = True/);
      place.settings({});
    },

    "an entry of launch.json is profiled with what it says": async (window, place) => {
      await window.openFile("pkg/echo.py");
      await window.command("Ridgeline: Profile With…");
      await window.pick("Echo as module");
      const echo = join(place.workspace, "echo.json");
      await until(() => existsSync(echo), "the program ran", RUN_MS);
      await isOver(window);
      const said = JSON.parse(readFileSync(echo, "utf8"));
      assert.deepEqual([said.argv.slice(1), said.name, said.TOKEN], [["--x", "a b"], "__main__", "from launch.json"]);
      rmSync(echo);
    },

    "arguments can be given for once": async (window, place) => {
      await window.openFile("pkg/echo.py");
      await window.command("Ridgeline: Profile With…");
      await window.pick("With arguments…");
      await window.quickInput("--name 'a b' --n 3");
      await window.page.keyboard.press("Enter");
      const echo = join(place.workspace, "echo.json");
      await until(() => existsSync(echo), "the program ran", RUN_MS);
      await isOver(window);
      assert.deepEqual(JSON.parse(readFileSync(echo, "utf8")).argv.slice(1), ["--name", "a b", "--n", "3"]);
    },

    "the test under the cursor is profiled by pytest": async (window) => {
      await window.openFile("test_product.py");
      await window.goToLine(8, 9);
      await window.command("Ridgeline: Profile With…");
      await window.pick("TestProduct::test_tanh");
      await shows(window, /1 passed/);
      await isOver(window);
    },

    "a run made in a terminal shows up by itself": async (window, place) => {
      cpSync(join(here, "fixture", "compiled.py"), join(place.workspace, "terminal.py"));
      await window.openFile("terminal.py");
      const args = ["profile", "--quiet", "--then", "stop", join(place.workspace, "terminal.py")];
      const env = { ...process.env, RIDGELINE_RUN_DIR: place.store };
      const terminal = spawn(join(python, "..", "ridgeline"), args, { cwd: place.workspace, env, stdio: "ignore" });
      const [status] = await once(terminal, "exit");
      assert.equal(status, 0);
      await window.lens("/step").first().waitFor({ state: "attached" });
    },
  },
);
