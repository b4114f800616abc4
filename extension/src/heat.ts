// The heat map: background, a bar in the gutter whose length tells the bucket without colour, and the overview ruler.
import * as vscode from "vscode";
import type { Annotations } from "./protocol";
import type { Server } from "./server";

const BUCKETS = 6;
/** Buckets below this one stay out of the overview ruler, which has room for few marks. */
const RULER_FROM = 2;

/** One decoration type a bucket, and one for stale lines, however many lines there are. */
export class HeatMap implements vscode.Disposable {
  private readonly fresh: vscode.TextEditorDecorationType[];
  private readonly stale: vscode.TextEditorDecorationType;
  private readonly files = new Set<string>();
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    context: vscode.ExtensionContext,
    private readonly server: Server,
  ) {
    this.fresh = Array.from({ length: BUCKETS }, (_, bucket) => freshLines(context, bucket));
    this.stale = staleLines(context);
    this.subscriptions = [
      ...this.fresh,
      this.stale,
      // A new editor of a document has no decorations, and the rows last sent may be from before some edits.
      vscode.window.onDidChangeVisibleTextEditors((editors) => this.ask(editors)),
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration("ridgeline.annotations")) this.ask(vscode.window.visibleTextEditors);
      }),
    ];
  }

  async ask(editors: readonly vscode.TextEditor[]): Promise<void> {
    const client = this.server.running;
    if (!client) return;
    const uris = new Set(editors.filter(isAnnotated).map((editor) => editor.document.uri.toString()));
    for (const uri of uris) this.show(await client.sendRequest<Annotations>("ridgeline/annotations", { uri }));
  }

  show(annotations: Annotations): void {
    const uri = vscode.Uri.parse(annotations.uri);
    for (const editor of vscode.window.visibleTextEditors) {
      if (editor.document.uri.toString() === uri.toString()) this.paint(editor, annotations);
    }
    if (annotations.lines.length) this.files.add(uri.fsPath);
    else this.files.delete(uri.fsPath);
    vscode.commands.executeCommand("setContext", "ridgeline.annotatedFiles", [...this.files]);
  }

  clear(): void {
    for (const editor of vscode.window.visibleTextEditors) {
      for (const type of [...this.fresh, this.stale]) editor.setDecorations(type, []);
    }
  }

  private paint(editor: vscode.TextEditor, annotations: Annotations): void {
    const document = editor.document;
    const wanted = vscode.workspace.getConfiguration("ridgeline.annotations", document).get<boolean>("heatMap");
    const rows = wanted ? annotations.lines.filter(({ line }) => line < document.lineCount) : [];
    const ranges = (lines: typeof rows) => lines.map(({ line }) => document.lineAt(line).range);
    // The new ones are drawn before the old ones go, bucket by bucket, so that nothing flickers.
    for (const [bucket, type] of this.fresh.entries()) {
      editor.setDecorations(type, ranges(rows.filter((row) => row.bucket === bucket && !row.stale)));
    }
    editor.setDecorations(this.stale, ranges(rows.filter((row) => row.stale)));
  }

  dispose(): void {
    for (const subscription of this.subscriptions) subscription.dispose();
  }
}

function isAnnotated({ document }: vscode.TextEditor): boolean {
  return document.uri.scheme === "file" && document.languageId === "python";
}

function freshLines(context: vscode.ExtensionContext, bucket: number): vscode.TextEditorDecorationType {
  const ruler = { overviewRulerColor: new vscode.ThemeColor(`ridgeline.ruler${bucket}`) };
  return vscode.window.createTextEditorDecorationType({
    ...gutter(context, String(bucket)),
    ...(bucket >= RULER_FROM ? ruler : {}),
    overviewRulerLane: vscode.OverviewRulerLane.Left,
    isWholeLine: true,
    rangeBehavior: vscode.DecorationRangeBehavior.ClosedClosed,
    backgroundColor: new vscode.ThemeColor(`ridgeline.heat${bucket}`),
  });
}

function staleLines(context: vscode.ExtensionContext): vscode.TextEditorDecorationType {
  return vscode.window.createTextEditorDecorationType({
    ...gutter(context, "stale"),
    isWholeLine: true,
    rangeBehavior: vscode.DecorationRangeBehavior.ClosedClosed,
  });
}

function gutter(context: vscode.ExtensionContext, name: string): vscode.DecorationRenderOptions {
  const icon = (theme: string) => ({ gutterIconPath: context.asAbsolutePath(`media/gutter/${theme}-${name}.svg`) });
  return { gutterIconSize: "contain", dark: icon("dark"), light: icon("light") };
}
