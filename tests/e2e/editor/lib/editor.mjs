// A real VS Code: code-server with the packaged extension installed, and the browser that shows it.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, openSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { join } from "node:path";
import { browserPath, cache, here, python, root, scratch, vsix } from "./paths.mjs";
import { Workbench } from "./workbench.mjs";

const { chromium } = createRequire(join(root, "extension", "package.json"))("playwright-core");

// Without these an interrupt would end this process before its exit handlers.
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

const CHROMIUM = "--no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update";
const USER_SETTINGS = {
  "workbench.reduceMotion": "on",
  "workbench.editor.restoreViewState": false,
  "workbench.startupEditor": "none",
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "workbench.colorTheme": "Default Dark Modern",
  "window.restoreWindows": "none",
  "editor.minimap.enabled": false,
  // What is typed is what stands there: Enter must not take a suggestion.
  "editor.quickSuggestions": { other: "off", comments: "off", strings: "off" },
  "editor.acceptSuggestionOnEnter": "off",
  "editor.accessibilitySupport": "off",
  "files.autoSave": "off",
  "files.hotExit": "off",
  "chat.disableAIFeatures": true,
  "git.enabled": false,
  "security.workspace.trust.startupPrompt": "never",
  "security.workspace.trust.banner": "never",
  "telemetry.telemetryLevel": "off",
};

export class Editor {
  /** Starts a server with the extension. `trust` leaves workspace trust on: folders are untrusted until said otherwise. */
  static async start({ trust = false, stub = false, machine = {}, environment = {} } = {}) {
    const editor = new Editor();
    editor.home = scratch("editor");
    editor.user = join(editor.home, "user");
    editor.extensions = join(editor.home, "extensions");
    editor.port = await freePort();
    for (const folder of ["User", "Machine"]) mkdirSync(join(editor.user, folder), { recursive: true });
    editor.settings({});
    editor.machine = { "ridgeline.python": python, ...machine };
    editor.machineSettings({});
    editor.environment = {
      ...process.env,
      XDG_CONFIG_HOME: join(editor.home, "config"),
      XDG_DATA_HOME: join(editor.home, "data"),
      XDG_STATE_HOME: join(editor.home, "state"),
      EXTENSIONS_GALLERY: '{"serviceUrl":""}',
      ...environment,
    };
    const extensions = stub ? [vsix, pythonExtension(editor.home)] : [vsix];
    for (const extension of extensions) editor.run("--install-extension", extension, "--force");
    await editor.serve(trust ? [] : ["--disable-workspace-trust"]);
    editor.browser = await chromium.launch({ executablePath: browserPath(), args: CHROMIUM.split(" ") });
    return editor;
  }

  settings(changes) {
    writeFileSync(join(this.user, "User", "settings.json"), JSON.stringify({ ...USER_SETTINGS, ...changes }));
  }

  /** Those of the machine: what the user's and the folder's files say was missing at activation now and then. */
  machineSettings(changes) {
    writeFileSync(join(this.user, "Machine", "settings.json"), JSON.stringify({ ...changes, ...this.machine }));
  }

  command(...args) {
    const node = join(cache, "node", "current", "bin", "node");
    const entry = join(cache, "editor", "node_modules", "code-server", "out", "node", "entry.js");
    return [node, [entry, "--user-data-dir", this.user, "--extensions-dir", this.extensions, ...args]];
  }

  run(...args) {
    const [node, all] = this.command(...args);
    return execFileSync(node, all, { env: this.environment, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  }

  async serve(more) {
    const switches = ["--disable-telemetry", "--disable-update-check", "--disable-getting-started-override", ...more];
    const trusted = ["--link-protection-trusted-domains", "https://ui.perfetto.dev"];
    const address = ["--bind-addr", `127.0.0.1:${this.port}`, "--auth", "none", "--reconnection-grace-time", "5"];
    const [node, all] = this.command(...address, ...switches, ...trusted);
    const log = openSync(join(this.home, "server.log"), "w");
    process.on("exit", () => this.kill());
    this.process = spawn(node, all, { env: this.environment, stdio: ["ignore", log, log], detached: true });
    for (let attempt = 0; attempt < 200; attempt++) {
      const health = await fetch(`http://127.0.0.1:${this.port}/healthz`).catch(() => undefined);
      if (health?.ok) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    throw new Error(`code-server did not start; see ${join(this.home, "server.log")}`);
  }

  /** Opens a folder, and a file of it, in a new window. */
  async open(workspace, file, { viewport = { width: 1400, height: 900 } } = {}) {
    const context = await this.browser.newContext({ viewport, permissions: ["clipboard-read", "clipboard-write"] });
    const page = await context.newPage();
    const workbench = new Workbench(page, this, workspace);
    await workbench.load(file);
    return workbench;
  }

  /** Ends the server and all that it started; also when the tests themselves are ended. */
  kill() {
    try {
      if (this.process) process.kill(-this.process.pid, "SIGTERM");
    } catch {
      // It ended by itself.
    }
  }

  async stop() {
    await this.browser?.close();
    this.kill();
    if (!process.env.RIDGELINE_KEEP)
      rmSync(this.home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
}

/** Packs the stub of the Python extension, which cannot be had here; what it exports is the part of its API that we use. */
function pythonExtension(folder) {
  const packed = join(folder, "python.vsix");
  const vsce = join(root, "extension", "node_modules", ".bin", "vsce");
  const switches = ["--no-dependencies", "--allow-missing-repository", "--skip-license", "--out", packed];
  execFileSync(vsce, ["package", ...switches], { cwd: join(here, "fixture", "ms-python"), stdio: "pipe" });
  return packed;
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
