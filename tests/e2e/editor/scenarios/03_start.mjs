// Interpreters, and the life of the server.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { python } from "../lib/paths.mjs";
import { session, until } from "../lib/scenario.mjs";

const UP = "5.20 ms/step";
const PROFILE = "Ridgeline: Profile This File";
const status = async (window) => (await window.languageStatus()).join("\n");

/** An interpreter that answers probes as it is told to, without being one. */
function fakePython(place, name, answer) {
  place.write(name, `#!/bin/sh\necho '${answer}'\n`);
  chmodSync(join(place.workspace, name), 0o755);
  return join(place.workspace, name);
}

session(
  "interpreters",
  { setUp: (place) => place.storeRun() },
  {
    "the language status names the state, the interpreter and torch": async (window) => {
      await window.ready();
      const text = await until(async () => /torch 2\./.test(await status(window)) && status(window), "the interpreter");
      assert.match(text, /Ridgeline: ready/);
      console.log(`# activation ${/Activated in ([\d.]+) ms/.exec(window.log())[1]} ms`);
      assert.match(text, /Python 3\.\d+\.\d+/);
      assert.ok(text.includes(python), text);
      await window.screenshot("language-status");
    },

    "an interpreter that is not there is said, with a button to choose another": async (window, place) => {
      place.settings({ "ridgeline.python": "/nowhere/bin/python" });
      await until(async () => /No interpreter/.test(await status(window)), "the status says so");
      await window.command(PROFILE);
      const toast = window.toast("/nowhere/bin/python");
      await toast.waitFor();
      await window.screenshot("no-interpreter");
      await window.press(toast, "Select Interpreter");
      assert.ok((await window.quickPickItems()).some((item) => item.includes("Choose a file")));
      await window.page.keyboard.press("Escape");
      place.settings({});
      await until(async () => /torch 2\./.test(await status(window)), "the good interpreter is back");
    },

    "an interpreter without torch is refused before anything runs": async (window, place) => {
      execFileSync(python, ["-m", "venv", "--without-pip", join(place.workspace, "bare")]);
      place.settings({ "ridgeline.python": "${workspaceFolder}/bare/bin/python" });
      await until(async () => /no torch/.test(await status(window)), "the status says so");
      await window.command(PROFILE);
      await window.toast("has no torch").waitFor();
      await window.screenshot("no-torch");
      place.settings({});
    },

    "the environment in the folder is chosen when nothing is named": async (window, place) => {
      symlinkSync(join(python, "..", ".."), join(place.workspace, ".venv"));
      place.settings({ "ridgeline.python": "" });
      await until(
        async () => /ws\/\.venv\/bin\/python \(\.venv\)/.test(await status(window)),
        "the folder's environment",
      );
      rmSync(join(place.workspace, ".venv"));
      place.settings({});
    },

    "a Python that is too old for the server is said; the named one is not passed over": async (window, place) => {
      place.settings({ "ridgeline.server.python": fakePython(place, "old.sh", "[[3, 8, 18], null, false]") });
      const text = await until(async () => /no server/.test(await status(window)) && status(window), "no server");
      assert.match(text, /old\.sh is Python 3\.8\.18; 3\.10 is needed/);
      await window.screenshot("old-python");
      place.settings({});
      await window.lens(UP).waitFor();
    },
  },
);

session(
  "the server's life",
  { setUp: (place) => place.storeRun() },
  {
    "a killed server is started again, and its results come back": async (window) => {
      await window.lens(UP).waitFor();
      const [pid] = window.serverProcesses();
      process.kill(pid, "SIGKILL");
      await until(() => window.serverProcesses().some((other) => other !== pid), "another server");
      await until(async () => (await window.lenses()).some((text) => text.includes(UP)), "the lenses are back");
    },

    "Restart Server starts a fresh one; the old one is gone": async (window) => {
      await window.lens(UP).waitFor();
      const [pid] = window.serverProcesses();
      await window.command("Ridgeline: Restart Server");
      await until(
        () => window.serverProcesses().length === 1 && window.serverProcesses()[0] !== pid,
        "one other server",
      );
      await window.lens(UP).waitFor();
    },

    "Debug Information has what a report needs, and no environment": async (window, place) => {
      place.settings({ "ridgeline.run.env": { TOKEN: "s3cret-value" } });
      await window.command("Ridgeline: Debug Information");
      await window.viewLine('"ridgeline": "0.1.0"').waitFor();
      const text = await window.text();
      assert.match(text, /"state": "ready"/);
      assert.doesNotMatch(text, /s3cret-value/);
      place.settings({});
    },

    "closing the window ends the server": async (window) => {
      await window.lens(UP).waitFor();
      assert.equal(window.serverProcesses().length, 1);
      await window.page.goto("about:blank");
      await until(() => window.serverProcesses().length === 0, "no server", 30_000);
    },
  },
);

session(
  "the Python extension",
  {
    editor: "python-extension",
    // The stub may choose what is no interpreter, so the server has one of its own.
    start: { stub: true, machine: { "ridgeline.python": null, "ridgeline.server.python": python } },
    setUp: (place) => place.write("chosen.txt", python),
  },
  {
    "its choice is followed, and a change of it": async (window, place) => {
      await until(async () => /\(Python extension\)/.test(await status(window)), "its choice");
      place.write("chosen.txt", fakePython(place, "other.sh", '[[3, 12, 1], "2.9.0", false]'));
      await window.command("Stub: Environment Changed");
      await until(async () => /torch 2\.9\.0/.test(await status(window)), "the other interpreter");
    },
  },
);
