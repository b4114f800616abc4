// The overview: the page of `ridgeline report` in a tab of the editor. The server gives its data and knows its places; the
// page gets the one inside its own document and gives the others back when they are clicked, so no port is needed.
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import * as vscode from "vscode";
import type { Location } from "vscode-languageclient/node";
import type { Overview, ProfileChanged, RunInfo } from "./protocol";
import type { Server } from "./server";

const VIEW = "ridgeline.overview";
const ASSETS = "bundled/libs/ridgeline/report/assets";

/** What the page asks for (webview/src/host.ts). */
interface Request {
  open?: string;
  glance?: boolean;
  trace?: string;
}

export class OverviewPanel implements vscode.Disposable, vscode.WebviewPanelSerializer {
  private panel: vscode.WebviewPanel | undefined;
  private run: RunInfo | null = null;
  /** The data of the page that is shown: the same again is not drawn again. */
  private drawn: string | null = null;
  private places = new Map<string, [string, number][]>();
  /** Counts up; an answer to an older question is not shown. */
  private asked = 0;
  private readonly assets: vscode.Uri;
  private readonly icon: { light: vscode.Uri; dark: vscode.Uri };
  private readonly registered: vscode.Disposable;

  constructor(
    context: vscode.ExtensionContext,
    private readonly server: Server,
  ) {
    this.assets = vscode.Uri.file(context.asAbsolutePath(ASSETS));
    const icon = (theme: string) => vscode.Uri.file(context.asAbsolutePath(`media/view-${theme}.svg`));
    this.icon = { light: icon("light"), dark: icon("dark") };
    this.registered = vscode.window.registerWebviewPanelSerializer(VIEW, this);
  }

  /** Shows a run, by default the one that the tree shows. */
  async open({ run }: { run?: string } = {}): Promise<void> {
    if (this.panel) this.panel.reveal();
    else this.adopt(vscode.window.createWebviewPanel(VIEW, "Ridgeline Overview", vscode.ViewColumn.Active));
    await this.show(run);
  }

  /** A window came back with the tab in it. */
  async deserializeWebviewPanel(panel: vscode.WebviewPanel): Promise<void> {
    this.panel?.dispose();
    this.adopt(panel);
    await this.show();
  }

  /** Another run is shown everywhere else, so it is here. */
  async follow({ reason, run }: ProfileChanged): Promise<void> {
    if (!this.panel || reason === "settings") return;
    if (reason === "pinned") await this.show(this.run?.id);
    else if (run?.id !== this.run?.id) await this.show();
  }

  private adopt(panel: vscode.WebviewPanel): void {
    this.panel = panel;
    this.run = null;
    panel.iconPath = this.icon;
    panel.webview.options = { enableScripts: true, localResourceRoots: [this.assets] };
    panel.webview.onDidReceiveMessage((request: Request) => this.answer(request));
    panel.onDidDispose(() => {
      if (this.panel === panel) this.panel = undefined;
    });
  }

  private async show(run?: string): Promise<void> {
    const mine = ++this.asked;
    if (this.panel && !this.run) this.say("Reading the run…");
    try {
      const client = await this.server.start();
      const found = await client.sendRequest<Overview>("ridgeline/overview", { run });
      if (mine !== this.asked || !this.panel) return;
      this.run = found.run;
      this.places = new Map(found.places.map(({ place, at }) => [place, at]));
      this.panel.title = found.run ? `Overview: ${found.run.target.split("/").pop()}` : "Ridgeline Overview";
      if (found.page === null)
        this.say("Nothing is measured yet. Open a PyTorch program and choose Profile This File.");
      else if (found.page !== this.drawn) this.draw(found.page, found.run?.trace !== null);
    } catch (error) {
      if (mine === this.asked) this.say(`The overview cannot be shown: ${(error as Error).message}`);
    }
  }

  /** Scripts with the nonce run, nothing is fetched but the page's two files. Plot sets styles on what it draws. */
  private draw(data: string, traced: boolean): void {
    this.drawn = data;
    const webview = (this.panel as vscode.WebviewPanel).webview;
    const nonce = randomBytes(16).toString("base64");
    const [script, style] = ["page.js", "page.css"].map((name) => vscode.Uri.joinPath(this.assets, name));
    if (!script || !style || !existsSync(script.fsPath)) {
      this.say("This build of the extension has no page.");
      return;
    }
    const policy = [
      "default-src 'none'",
      `script-src 'nonce-${nonce}'`,
      `style-src ${webview.cspSource} 'unsafe-inline'`,
      "img-src data:",
      "base-uri 'none'",
      "form-action 'none'",
    ];
    webview.html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy.join("; ")}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped((this.panel as vscode.WebviewPanel).title)}</title>
<link rel="stylesheet" href="${webview.asWebviewUri(style)}">
</head>
<body>
<main id="page"></main>
<script type="application/json" id="data"${traced ? " data-trace" : ""} nonce="${nonce}">${data}</script>
<script nonce="${nonce}" src="${webview.asWebviewUri(script)}"></script>
</body>
</html>`;
  }

  private say(text: string): void {
    this.drawn = null;
    if (!this.panel) return;
    this.panel.webview.html = `<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escaped(this.panel.title)}</title></head>
<body><p role="status">${escaped(text)}</p></body></html>`;
  }

  private async answer(request: Request): Promise<void> {
    const { open, trace, glance } = request;
    if (typeof trace === "string")
      await vscode.commands.executeCommand("ridgeline.openTrace", { run: this.run?.id, kernel: trace });
    if (typeof open === "string") await this.goTo(open, glance === true);
  }

  /** Beside the overview, so that both stay in sight. `glance` leaves the keys with the overview. */
  private async goTo(place: string, glance: boolean): Promise<void> {
    const client = await this.server.start();
    const places = this.places.get(place) ?? [];
    const found = await client.sendRequest<Location[]>("ridgeline/places", { run: this.run?.id, places });
    const [first, ...more] = found.map((location) => client.protocol2CodeConverter.asLocation(location));
    if (!first) {
      vscode.window.setStatusBarMessage(`Ridgeline: ${place} is not in this workspace`, 8_000);
      return;
    }
    const options = { selection: first.range, preserveFocus: glance, viewColumn: this.beside() };
    const editor = await vscode.window.showTextDocument(first.uri, options);
    if (!more.length) return;
    // Two files that the page writes alike: the person chooses.
    const nothing = "There is no place to go to.";
    const from = [editor.document.uri, editor.selection.active];
    await vscode.commands.executeCommand("editor.action.goToLocations", ...from, [first, ...more], "peek", nothing);
  }

  private beside(): vscode.ViewColumn {
    const here = this.panel?.viewColumn ?? vscode.ViewColumn.One;
    const other = vscode.window.visibleTextEditors.find(({ viewColumn }) => viewColumn && viewColumn !== here);
    return other?.viewColumn ?? vscode.ViewColumn.Beside;
  }

  dispose(): void {
    this.registered.dispose();
    this.panel?.dispose();
  }
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}
