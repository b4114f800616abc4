// Profile This File: one click to feedback, progress with Cancel, and at the end a result or a cause with a button.
import * as vscode from "vscode";
import { LSPErrorCodes, ResponseError } from "vscode-languageclient/node";
import { type Interpreter, type Interpreters, isNewEnough } from "./interpreter";
import { ask, Problem } from "./messages";
import type { Annotations, HeatLine, Output, ProfileParams, ProfileResult, Progress } from "./protocol";
import type { Server } from "./server";
import type { Status } from "./status";

interface Running {
  name: string;
  token: vscode.CancellationTokenSource;
  done: Promise<void>;
}

export class Profiler implements vscode.Disposable {
  private running: Running | undefined;
  private report: ((message: string) => void) | undefined;

  constructor(
    private readonly server: Server,
    private readonly interpreters: Interpreters,
    private readonly status: Status,
    private readonly output: vscode.OutputChannel,
  ) {}

  /** Runs `params` and shows what came of it. `uri` says which document the run is about. */
  async profile(uri: vscode.Uri, params: ProfileParams): Promise<void> {
    if (!vscode.workspace.isTrusted) return askForTrust();
    if (this.running && !(await this.replace(this.running))) return;
    const name = params.module ?? vscode.workspace.asRelativePath(uri);
    const token = new vscode.CancellationTokenSource();
    const done = this.withProgress(name, uri, params, token).finally(() => {
      this.running = undefined;
      this.report = undefined;
      this.status.showRun(null);
      token.dispose();
    });
    this.running = { name, token, done };
    return done;
  }

  cancel(): void {
    this.running?.token.cancel();
  }

  onProgress(progress: Progress): void {
    if (progress.state !== "running") return;
    const count =
      progress.step !== null && progress.steps !== null ? `step ${progress.step} of ${progress.steps}` : null;
    const elapsed = progress.elapsedSeconds === null ? null : `${Math.round(progress.elapsedSeconds)} s`;
    this.report?.([progress.message || progress.phase, count, elapsed].filter(Boolean).join(" · "));
  }

  onOutput(output: Output): void {
    this.output.append(output.text);
  }

  private withProgress(name: string, uri: vscode.Uri, params: ProfileParams, source: vscode.CancellationTokenSource) {
    const title = `Profiling ${name}`;
    this.status.showRun(title);
    const options = { location: vscode.ProgressLocation.Notification, title, cancellable: true };
    return Promise.resolve(
      vscode.window.withProgress(options, async (progress, cancelled) => {
        cancelled.onCancellationRequested(() => source.cancel());
        this.report = (message) => {
          progress.report({ message });
          this.status.showRun(`${title}: ${message}`);
        };
        try {
          return await this.run(name, uri, params, source.token);
        } catch (error) {
          return this.explain(error, source.token);
        }
      }),
    ).then((after) => void after?.());
  }

  /** The steps of a run. What is returned is shown when the progress is gone. */
  private async run(name: string, uri: vscode.Uri, params: ProfileParams, token: vscode.CancellationToken) {
    const open = vscode.workspace.textDocuments.find((document) => document.uri.toString() === uri.toString());
    // What runs is the file, so the numbers must belong to what the editor shows.
    if (open?.isDirty && !(await open.save())) throw new Error(`${name} could not be saved, so it was not run.`);
    this.report?.("looking for the interpreter");
    const interpreter = await this.interpreters.resolve(uri);
    const unfit = unfitness(interpreter);
    if (unfit)
      throw new Problem(unfit, {
        "Select Interpreter": "ridgeline.selectInterpreter",
        "Show Log": "ridgeline.showLog",
      });
    this.report?.("starting");
    const client = await this.server.start();
    if (token.isCancellationRequested) throw new vscode.CancellationError();
    this.output.clear();
    this.output.appendLine(
      `${interpreter.path} ${params.module ? `-m ${params.module}` : name} ${(params.args ?? []).join(" ")}`,
    );
    if (this.shows("always")) this.show();
    const wanted = { python: interpreter.path, ...params };
    const result = await client.sendRequest<ProfileResult>("ridgeline/profile", wanted, token);
    return () => this.conclude(name, uri, result);
  }

  private conclude(name: string, uri: vscode.Uri, result: ProfileResult): void {
    if (result.state === "done" && !result.cause) {
      this.announce(uri, result.message);
      return;
    }
    if (result.state === "cancelled") return;
    if (this.shows("onFailure")) this.show();
    const cause = result.cause;
    const text = cause ? sentences(cause.message, cause.hint) : result.message || `${name} failed.`;
    const actions = new Map((cause?.actions ?? []).map((action) => [action.title, action]));
    const show = result.state === "done" ? vscode.window.showWarningMessage : vscode.window.showErrorMessage;
    show(text, ...actions.keys(), "Show Output").then((picked) => {
      const action = actions.get(picked ?? "");
      if (action) vscode.commands.executeCommand(action.command, ...(action.arguments ?? []));
      else if (picked) this.show();
    });
  }

  /** The result in one line; the hot lines may be below the fold, so there is a way to the hottest. */
  private async announce(uri: vscode.Uri, message: string): Promise<void> {
    const [hottest, list, overview] = ["Hottest Line", "Hot Spots", "Overview"];
    const picked = await vscode.window.showInformationMessage(message, hottest, list, overview);
    if (picked === overview) await vscode.commands.executeCommand("ridgeline.openOverview");
    if (picked === list) await vscode.commands.executeCommand("ridgeline.showTree");
    if (picked !== hottest) return;
    const client = await this.server.start();
    const { lines } = await client.sendRequest<Annotations>("ridgeline/annotations", { uri: uri.toString() });
    const line = lines.reduce<HeatLine | undefined>(
      (best, row) => (best && best.percent >= row.percent ? best : row),
      undefined,
    );
    const at = new vscode.Position(line?.line ?? 0, 0);
    await vscode.window.showTextDocument(uri, { selection: new vscode.Range(at, at) });
  }

  private explain(error: unknown, token: vscode.CancellationToken): (() => void) | undefined {
    if (token.isCancellationRequested || error instanceof vscode.CancellationError) {
      return () =>
        vscode.window.setStatusBarMessage("$(circle-slash) Ridgeline: cancelled, nothing is left running", 8_000);
    }
    const refused =
      error instanceof ResponseError && error.code === LSPErrorCodes.RequestFailed ? error.data?.code : null;
    if (refused === "already-running")
      return () => ask((error as Error).message, { "Cancel That Run": "ridgeline.server.cancel" });
    if (error instanceof Problem) return () => ask(error.message, error.buttons);
    return () =>
      ask((error as Error).message, { "Show Log": "ridgeline.showLog", "Restart Server": "ridgeline.restart" });
  }

  /** A second click while something runs: true when the first run was stopped to make room. */
  private async replace(running: Running): Promise<boolean> {
    const restart = "Cancel and Run Again";
    const text = `Ridgeline is profiling ${running.name}. One run at a time keeps the numbers honest.`;
    const picked = await vscode.window.showWarningMessage(text, restart, "Show Output");
    if (picked === "Show Output") this.show();
    if (picked !== restart) return false;
    running.token.cancel();
    await running.done;
    return true;
  }

  private shows(when: "always" | "onFailure"): boolean {
    const setting = vscode.workspace.getConfiguration("ridgeline.run").get<string>("showOutput");
    return setting === when || (when === "onFailure" && setting === "always");
  }

  show(): void {
    this.output.show(true);
  }

  dispose(): void {
    this.cancel();
  }
}

/** Words of the command line as sentences of a message. */
function sentences(...parts: (string | null | undefined)[]): string {
  const said = parts.filter((part): part is string => Boolean(part));
  return said.map((part) => part.charAt(0).toUpperCase() + part.slice(1).replace(/([^.?!])$/, "$1.")).join(" ");
}

/** Why a program cannot be profiled with this interpreter, seen without running the program; null when nothing speaks against it. */
function unfitness(interpreter: Interpreter): string | null {
  const { path, origin, problem, version, torch } = interpreter;
  if (problem) return `${problem} (${origin})`;
  if (!isNewEnough(interpreter)) return `${path} (${origin}) is Python ${version?.join(".")}; 3.10 or newer is needed.`;
  return torch ? null : `${path} (${origin}) has no torch. Choose the interpreter that your program runs with.`;
}

async function askForTrust(): Promise<void> {
  const text = "Profiling runs your program, and this workspace is not trusted.";
  await ask(text, { "Manage Workspace Trust": "workbench.trust.manage" });
}
