// Real runs: programs are profiled on the CPU of this machine, from the click to the lens.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { python, root } from "../lib/paths.mjs";
import { session, until } from "../lib/scenario.mjs";
import { processes } from "../lib/workbench.mjs";

const RUN_MS = 90_000;
const GRANDCHILD = "signal.SIG_IGN); time.sleep(600)";

/** Goes on until it is stopped, with a grandchild that ignores SIGINT. */
const STUBBORN = `
import subprocess, sys, time, torch
subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGINT, ${GRANDCHILD}"])
a = torch.randn(256, 256)
print("begun", flush=True)
while True:
    a = (a @ a).tanh()
    time.sleep(0.01)
`;

/** Says how it was run, then computes a little. */
const ECHO = `
import json, os, sys, torch
said = {"argv": sys.argv, "cwd": os.getcwd(), "name": __name__, "TOKEN": os.environ.get("TOKEN"), "FILE": os.environ.get("FILE")}
json.dump(said, open("echo.json", "w"))
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
  for (const name of ["compiled_transformer.py", "eager_training.py"])
    cpSync(join(root, "examples", name), join(place.workspace, name));
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

session(
  "real runs",
  { setUp, file: "compiled_transformer.py", timeout: 240_000 },
  {
    "click, and the lines of a compiled program show their time; to the generated module and back": async (window) => {
      await window.ready();
      const clicked = Date.now();
      await clickProfile(window);
      await window.toast("Profiling compiled_transformer.py").waitFor();
      console.log(`# feedback ${Date.now() - clicked} ms after the click`);
      await until(
        async () => /compiling|warming|recording/.test(await window.toast("Profiling").innerText()),
        "a phase",
        RUN_MS,
      );
      await window.screenshot("running");
      await isOver(window);
      await window.lens("/step").first().waitFor({ state: "attached" });
      console.log(`# first lens ${Math.round((Date.now() - clicked) / 1000)} s after the click`);
      await window.hidePanel();
      await window.goToLine(48);
      const below = async () => {
        const shown = await window.lens("/step").filter({ visible: true }).all();
        return Promise.all(shown.map((lens) => window.lineBelow(lens).catch(() => "")));
      };
      const hot = /F\.silu\(self\.gate\(h\)\)/;
      await until(async () => (await below()).some((line) => hot.test(line)), "a lens above the gated line");
      await window.screenshot("profiled");
      const hover = await window.hover("F.silu(self.gate(h))", "silu");
      await hover.filter({ hasText: "/step" }).first().waitFor();
      await window.page.waitForTimeout(400); // It fades in.
      await window.screenshot("profiled-hover");
      await window.goToLine(45, 16);
      await window.page.keyboard.press("F12");
      const back = window.lens("from compiled_transformer.py").filter({ visible: true }).first();
      const peek = window.page.locator(".peekview-widget .monaco-list-row.focused");
      await peek.or(back).first().waitFor();
      // Forward and backward launch kernels of this line: with several places the editor offers them.
      if (await peek.isVisible()) await peek.dblclick();
      await back.waitFor();
      await window.screenshot("profiled-generated");
      await back.click();
      await until(
        async () => (await window.peeks()) || (await window.tabs()).active.startsWith("compiled_tr"),
        "the way back",
      );
    },

    "an eager program has its time on its lines, its output in the panel, and its operators in the tree": async (
      window,
    ) => {
      await window.openFile("eager_training.py");
      await clickProfile(window);
      await window.toast("Profiling eager_training.py").waitFor();
      await isOver(window);
      await window.lens("/step").first().waitFor({ state: "attached" });
      assert.match(await window.output(), /eager_training\.py/);
      await window.press(window.toast("Hottest Line"), "Hottest Line");
      await until(
        async () => /optimizer\.step|looked_up|self\.top|self\.bottom/.test(await window.currentLine()),
        "a hot line",
      );
      await window.command("Ridgeline: Show Hot Spots");
      assert.match((await window.tree()).join("\n"), /aten::|mm/);
      await window.screenshot("eager");
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
      await nothingLeft(place, 10_000);
    },

    "killing the server ends the run too": async (window, place) => {
      await window.openFile("stubborn.py");
      await clickProfile(window);
      await shows(window, /begun/);
      for (const pid of window.serverProcesses()) process.kill(pid, "SIGKILL");
      await nothingLeft(place, 5_000);
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
      await window
        .toast(/nothing|Nothing|recorded/)
        .first()
        .waitFor({ timeout: RUN_MS });
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
      cpSync(join(root, "examples", "eager_training.py"), join(place.workspace, "terminal.py"));
      await window.openFile("terminal.py");
      const args = ["profile", "--quiet", join(place.workspace, "terminal.py"), "--", "--steps", "80"];
      const env = { ...process.env, RIDGELINE_RUN_DIR: place.store };
      const terminal = spawn(join(python, "..", "ridgeline"), args, { cwd: place.workspace, env, stdio: "ignore" });
      const [status] = await once(terminal, "exit");
      assert.equal(status, 0);
      await window.lens("/step").first().waitFor({ state: "attached" });
    },
  },
);
