// What a person sees without asking: two language status items of Python files, and a status bar item while a run goes on.
import * as vscode from "vscode";
import type { Interpreter, Interpreters } from "./interpreter";
import type { RunInfo } from "./protocol";
import type { Server } from "./server";

const PYTHON: vscode.DocumentSelector = { scheme: "file", language: "python" };

export class Status implements vscode.Disposable {
  private readonly state = vscode.languages.createLanguageStatusItem("ridgeline.state", PYTHON);
  private readonly python = vscode.languages.createLanguageStatusItem("ridgeline.interpreter", PYTHON);
  private readonly running = vscode.window.createStatusBarItem("ridgeline.run", vscode.StatusBarAlignment.Left, 90);
  private readonly subscriptions: vscode.Disposable[] = [this.state, this.python, this.running];
  private shown: RunInfo | null = null;

  constructor(
    private readonly server: Server,
    private readonly interpreters: Interpreters,
  ) {
    this.state.name = "Ridgeline";
    this.python.name = "Ridgeline Interpreter";
    this.python.command = { command: "ridgeline.selectInterpreter", title: "Select" };
    this.running.name = "Ridgeline Run";
    this.running.command = "ridgeline.cancel";
    this.subscriptions.push(
      server.onDidChangeState(() => this.showState()),
      interpreters.onDidChange(() => this.showInterpreter()),
      vscode.window.onDidChangeActiveTextEditor(() => this.showInterpreter()),
    );
    this.showState();
    this.showInterpreter();
  }

  /** `null` when nothing runs. */
  showRun(message: string | null): void {
    vscode.commands.executeCommand("setContext", "ridgeline.running", message !== null);
    this.state.busy = message !== null;
    if (message === null) {
      this.running.hide();
      return;
    }
    this.running.text = `$(loading~spin) ${message}`;
    this.running.tooltip = "Ridgeline is profiling. Click to cancel.";
    this.running.accessibilityInformation = { label: `Ridgeline is profiling: ${message}. Click to cancel.` };
    this.running.show();
  }

  /** The run whose results are shown, for the way to its overview. */
  showResults(run: RunInfo | null): void {
    this.shown = run;
    this.showState();
  }

  private showState(): void {
    const { state, failure } = this.server;
    const bad = state === "failed" || state === "stopped";
    this.state.text = {
      starting: "Ridgeline: starting",
      ready: "Ridgeline: ready",
      stopped: "Ridgeline: stopped",
      failed: "Ridgeline: no server",
    }[state];
    this.state.detail = failure ?? (vscode.workspace.isTrusted ? "" : "untrusted: saved profiles only");
    this.state.severity = bad ? vscode.LanguageStatusSeverity.Error : vscode.LanguageStatusSeverity.Information;
    this.state.command = bad
      ? { command: "ridgeline.restart", title: "Restart" }
      : this.shown
        ? { command: "ridgeline.openOverview", title: "Open Overview" }
        : { command: "ridgeline.showLog", title: "Show Log" };
  }

  private async showInterpreter(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    if (editor?.document.languageId !== "python") return;
    this.python.busy = true;
    const found = await this.interpreters.resolve(editor.document.uri);
    this.python.busy = false;
    this.python.text = found.version ? `Python ${found.version.join(".")}` : "No interpreter";
    this.python.detail =
      found.problem ?? `${found.torch ? `torch ${found.torch}` : "no torch"} · ${found.path} (${found.origin})`;
    this.python.severity = severity(found);
    const ready = !found.problem && found.torch !== null;
    vscode.commands.executeCommand("setContext", "ridgeline.interpreterReady", ready);
  }

  dispose(): void {
    for (const subscription of this.subscriptions) subscription.dispose();
  }
}

function severity({ problem, torch }: Interpreter): vscode.LanguageStatusSeverity {
  if (problem) return vscode.LanguageStatusSeverity.Error;
  return torch ? vscode.LanguageStatusSeverity.Information : vscode.LanguageStatusSeverity.Warning;
}
