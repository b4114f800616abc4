// The environment in which traces are analysed. It is never the program's own: its packages must not meet the user's.
import { createHash } from "node:crypto";
import * as fs from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import { expand, type Interpreter } from "./interpreter";
import { Problem } from "./messages";
import { run } from "./subprocess";

const BUILD_TIMEOUT_MS = 15 * 60_000;

export class AnalysisEnvironment {
  private building: Promise<string> | undefined;

  constructor(
    private readonly storage: string,
    private readonly requirements: string,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  /**
   * The interpreter of the analysis: the one that is named, the program's own when ridgeline is installed in it, else
   * an environment that is built on first use. Throws an error in words when it cannot be built.
   */
  async python(
    base: Interpreter,
    scope: vscode.Uri | undefined,
    report: Report,
    token: vscode.CancellationToken,
  ): Promise<string> {
    const settings = vscode.workspace.getConfiguration("ridgeline.analysis", scope);
    const named = settings.get<string>("python");
    if (named) return expand(named, scope);
    if (base.ridgeline) return base.path;
    this.building ??= this.ready(base, settings.get<string>("wheelhouse") ?? "", report, token).finally(() => {
      this.building = undefined;
    });
    return this.building;
  }

  /** Forget what was built, so that the next profile builds it afresh. */
  async remove(): Promise<void> {
    await fs.rm(path.join(this.storage, "analysis"), { recursive: true, force: true });
  }

  private async ready(base: Interpreter, wheelhouse: string, report: Report, token: vscode.CancellationToken) {
    const wanted = await fs.readFile(this.requirements, "utf8");
    const key = createHash("sha256")
      .update(`${base.version?.join(".")}\n${wanted}`)
      .digest("hex")
      .slice(0, 12);
    const folder = path.join(this.storage, "analysis", key);
    const python = path.join(folder, ...(process.platform === "win32" ? ["Scripts", "python.exe"] : ["bin", "python"]));
    // Written last: an environment without it was interrupted while it was built.
    const stamp = path.join(folder, "ridgeline-ready");
    if (
      await fs.access(stamp).then(
        () => true,
        () => false,
      )
    )
      return python;
    await fs.rm(folder, { recursive: true, force: true });
    await fs.mkdir(path.dirname(folder), { recursive: true });
    report("Building the analysis environment (once)");
    await this.step(base.path, ["-m", "venv", folder], "create a virtual environment", report, token);
    const source = wheelhouse ? ["--no-index", "--find-links", wheelhouse] : [];
    const pip = ["-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--prefer-binary"];
    await this.step(
      python,
      [...pip, ...source, "-r", this.requirements],
      "install the analysis packages",
      report,
      token,
    );
    await fs.writeFile(stamp, "");
    return python;
  }

  private async step(command: string, args: string[], what: string, report: Report, token: vscode.CancellationToken) {
    this.log.info(`${command} ${args.join(" ")}`);
    const onLine = (line: string) => {
      this.log.info(line);
      if (/^(Collecting|Downloading|Installing)/.test(line)) report(line.slice(0, 80));
    };
    const done = await run(command, args, { cwd: this.storage, timeoutMs: BUILD_TIMEOUT_MS, token, onLine });
    if (token.isCancellationRequested) throw new vscode.CancellationError();
    if (done.status === 0) return;
    const why = done.stderr
      .trim()
      .split("\n")
      .filter((line) => !line.startsWith("[notice]"))
      .pop();
    const text = `Could not ${what}: ${why ?? `exit status ${done.status}`}. Name an environment or a folder of wheels in the settings.`;
    throw new Problem(text, {
      "Open Settings": ["ridgeline.openSettings", "ridgeline.analysis"],
      "Show Log": "ridgeline.showLog",
    });
  }
}

export type Report = (message: string) => void;
