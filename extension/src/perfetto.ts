// A run's trace in Perfetto: in a tab of the editor where this machine has the interface, else in the browser by way of
// ui.perfetto.dev, else as a file. The server's child serves it on loopback; the editor forwards that port where it must.
import * as vscode from "vscode";
import type { OpenTrace } from "./protocol";
import type { Server } from "./server";

const VIEW = "ridgeline.trace";
const PERFETTO = "https://ui.perfetto.dev/";

export interface TraceTarget {
  run?: string | undefined;
  kernel?: string | null;
}

export class TraceView implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;

  constructor(private readonly server: Server) {}

  /** Shows a trace with a kernel's launch selected: of the run, else of the one that the active file shows. */
  async open(target: TraceTarget = {}): Promise<void> {
    const uri = vscode.window.activeTextEditor?.document.uri.toString();
    const { run, kernel } = target;
    const settings = vscode.workspace.getConfiguration("ridgeline.perfetto");
    const wanted = {
      run,
      kernel: kernel ?? undefined,
      uri: run ? undefined : uri,
      interface: settings.get<string | null>("interface") || undefined,
    };
    await this.server.start();
    const options = { location: vscode.ProgressLocation.Window, title: "Ridgeline: preparing the trace" };
    const trace = await vscode.window.withProgress(options, () =>
      vscode.commands.executeCommand<OpenTrace | null>("ridgeline.server.openTrace", wanted),
    );
    if (!trace) return;
    for (const note of trace.notes)
      vscode.window.showInformationMessage(`${note.charAt(0).toUpperCase()}${note.slice(1)}.`);
    const where = settings.get<string>("open", "auto");
    if (!trace.url || where === "file") return this.offer(trace);
    // Forwarded anew each time: the port on this side may change between two calls.
    const address = await vscode.env.asExternalUri(vscode.Uri.parse(trace.url));
    const host = address.authority.replace(/:\d+$/, "");
    await this.server.running?.sendNotification("ridgeline/traceForwarded", { url: trace.url, host });
    if (where === "tab" || (where === "auto" && trace.ui === "local")) this.show(address, trace.path);
    else await vscode.env.openExternal(address);
  }

  /** Kept while hidden: the interface has the whole trace in its memory, and what a person did with it. */
  private show(address: vscode.Uri, path: string): void {
    if (!this.panel) {
      const column = vscode.ViewColumn.Active;
      const kept = { enableScripts: true, retainContextWhenHidden: true };
      const panel = vscode.window.createWebviewPanel(VIEW, "Trace", column, kept);
      this.panel = panel;
      panel.onDidDispose(() => {
        if (this.panel === panel) this.panel = undefined;
      });
    } else this.panel.reveal();
    // The folder of a run lies in one that is named for its program.
    this.panel.title = `Trace: ${
      path
        .split("/")
        .at(-3)
        ?.replace(/-[0-9a-f]{10}$/, "") ?? "Perfetto"
    }`;
    const origin = `${address.scheme}://${address.authority}`;
    const policy = `default-src 'none'; frame-src ${origin}; style-src 'unsafe-inline'`;
    const source = address.toString(true).replace(/[&"<>]/g, (character) => `&#${character.charCodeAt(0)};`);
    this.panel.webview.html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>Perfetto</title>
<style>body { padding: 0; margin: 0 } iframe { position: fixed; width: 100%; height: 100%; border: 0 }</style>
</head>
<body><iframe title="The trace in Perfetto" allow="clipboard-read; clipboard-write" src="${source}"></iframe></body>
</html>`;
  }

  private async offer({ path }: OpenTrace): Promise<void> {
    const open = "Open ui.perfetto.dev";
    const text = `Open the trace ${path} in Perfetto.`;
    const picked = await vscode.window.showInformationMessage(text, open, "Copy Path", "Reveal File");
    if (picked === open) await vscode.env.openExternal(vscode.Uri.parse(PERFETTO));
    if (picked === "Copy Path" || picked === open) await vscode.env.clipboard.writeText(path);
    if (picked === "Reveal File") await vscode.commands.executeCommand("revealFileInOS", vscode.Uri.file(path));
  }

  dispose(): void {
    this.panel?.dispose();
  }
}
