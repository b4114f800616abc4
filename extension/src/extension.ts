// The client: what LSP has no word for. It finds the interpreter, owns the server's life, and draws what the server says.
import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { HeatMap } from "./heat";
import { chooseRun } from "./history";
import { Interpreters } from "./interpreter";
import { Navigation } from "./navigation";
import { OverviewPanel } from "./overview";
import { type TraceTarget, TraceView } from "./perfetto";
import { Profiler } from "./profile";
import {
  type Annotations,
  MEASURE,
  NEED_PYTHON,
  type Output,
  type ProfileChanged,
  type ProfileParams,
  type ProfileResult,
  type Progress,
  type Tree,
  type TreeItem,
} from "./protocol";
import { type Around, Server } from "./server";
import { Status } from "./status";
import { debugInfo, selectInterpreter, toggleAnnotations } from "./support";
import { chooseTarget } from "./targets";
import { HotTree } from "./tree";

let server: Server | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const began = performance.now();
  const log = vscode.window.createOutputChannel("Ridgeline", { log: true });
  const output = vscode.window.createOutputChannel("Ridgeline: Program Output");
  const storage = context.globalStorageUri.fsPath;
  const interpreters = new Interpreters(storage);
  const ours = new Server(
    context,
    interpreters,
    log,
    (client) => wire(client),
    (command, args, next) => around(command, args, next),
  );
  server = ours;
  const status = new Status(ours, interpreters);
  const profiler = new Profiler(ours, interpreters, status, output);
  const heat = new HeatMap(context, ours);
  const tree = new HotTree(ours, (run) => status.showResults(run));
  const navigation = new Navigation(ours);
  const overview = new OverviewPanel(context, ours);
  const traces = new TraceView(ours);

  const wire = (client: LanguageClient) => [
    client.onNotification("ridgeline/progress", (progress: Progress) => profiler.onProgress(progress)),
    client.onNotification("ridgeline/output", (text: Output) => profiler.onOutput(text)),
    client.onNotification("ridgeline/annotations", (annotations: Annotations) => heat.show(annotations)),
    client.onNotification("ridgeline/tree", (next: Tree) => tree.receive(next)),
    client.onNotification("ridgeline/profileChanged", (changed: ProfileChanged) => {
      log.info(`Results of run ${changed.run?.id ?? "none"} are shown`);
      overview.follow(changed);
    }),
  ];

  const around: Around = async (command, args, next) => {
    if (!NEED_PYTHON.includes(command)) return next(command, args);
    const wanted = (args[0] ?? {}) as { uri?: string };
    const uri = wanted.uri ? vscode.Uri.parse(wanted.uri) : vscode.window.activeTextEditor?.document.uri;
    const full = [{ python: (await interpreters.resolve(uri)).path, ...wanted }];
    if (!MEASURE.includes(command)) return next(command, full);
    const options = { location: vscode.ProgressLocation.Notification, title: "Measuring", cancellable: true };
    return vscode.window.withProgress(options, async (_, token) => {
      token.onCancellationRequested(() => vscode.commands.executeCommand("ridgeline.server.cancel"));
      return next(command, full);
    });
  };

  const profileFile = async (target?: vscode.Uri | ProfileParams) => {
    const wanted = target instanceof vscode.Uri ? { uri: target.toString() } : target;
    const uri = wanted?.uri ? vscode.Uri.parse(wanted.uri) : vscode.window.activeTextEditor?.document.uri;
    if (uri?.scheme === "file") await profiler.profile(uri, { ...wanted, uri: uri.toString() });
    else vscode.window.showInformationMessage("Open a Python file that is saved on disk, then profile it.");
  };
  const profileWith = async () => {
    const editor = vscode.window.activeTextEditor;
    const params = editor && (await chooseTarget(ours, editor));
    if (params) await profileFile(params);
  };
  /** The server says what came of it; here only what the names mean that exist while the program runs alone is asked. */
  const timeExpression = async (given?: unknown): Promise<void> => {
    const editor = vscode.window.activeTextEditor;
    const client = await ours.start();
    if (!editor) return;
    const setup = typeof given === "string" ? given : undefined;
    const range = client.code2ProtocolConverter.asRange(editor.selection);
    const wanted = { uri: editor.document.uri.toString(), range, setup };
    const found = await vscode.commands.executeCommand<ProfileResult>("ridgeline.server.timeExpression", wanted);
    if (found?.cause?.code !== "name-missing") return;
    const prompt = `${found.cause.message}: what should run once before?`;
    const options = {
      title: "Time This Expression",
      prompt,
      value: setup ?? "",
      placeHolder: "x = torch.randn(8, 512)",
    };
    const answer = await vscode.window.showInputBox(options);
    if (answer) await timeExpression(answer);
  };
  const pin = async (pinned: boolean) => {
    await ours.start();
    const uri = vscode.window.activeTextEditor?.document.uri.toString();
    await vscode.commands.executeCommand("ridgeline.server.pin", { uri, pinned });
  };
  const restart = async () => {
    interpreters.refresh();
    await ours.restart();
  };
  const commands: Record<string, (...args: never[]) => unknown> = {
    profileFile,
    profileWith,
    restart,
    timeExpression,
    cancel: () => profiler.cancel(),
    goToLocations: navigation.goToLocations.bind(navigation),
    openKernel: (node?: TreeItem) => navigation.openKernel(node),
    // An item of the tree is of the run that the tree shows.
    openTrace: (target?: TraceTarget | TreeItem) =>
      traces.open(target && "contextValue" in target ? { run: tree.run?.id, kernel: target.kernel } : target),
    openOverview: (target?: { run?: string }) => overview.open(target),
    showTree: () => vscode.commands.executeCommand("ridgeline.hot.focus"),
    toggleAnnotations,
    chooseRun: () => chooseRun(ours),
    pin: () => pin(true),
    unpin: () => pin(false),
    clear: () => vscode.commands.executeCommand("ridgeline.server.clear", {}),
    selectInterpreter: () => selectInterpreter(interpreters),
    rebuildAnalysis: () => vscode.commands.executeCommand("ridgeline.server.rebuildAnalysis", {}),
    openSettings: (query?: string) => vscode.commands.executeCommand("workbench.action.openSettings", query),
    debugInfo: () => debugInfo(context, ours, interpreters),
    showOutput: () => profiler.show(),
    showLog: () => log.show(true),
    "tree.sort": () => tree.pickSort(),
    "tree.reveal": () => tree.reveal(),
    "tree.filter": () => tree.askFilter(),
    "tree.copyName": (node: TreeItem) => vscode.env.clipboard.writeText(node.label),
  };
  for (const [name, command] of Object.entries(commands)) {
    context.subscriptions.push(vscode.commands.registerCommand(`ridgeline.${name}`, command));
  }
  context.subscriptions.push(
    log,
    output,
    interpreters,
    ours,
    status,
    profiler,
    heat,
    tree,
    overview,
    traces,
    interpreters.onDidChange(() => ours.follow().catch(() => undefined)),
    ours.onDidChangeState((state) => {
      if (state === "ready") Promise.all([tree.refresh(), heat.ask(vscode.window.visibleTextEditors)]);
      else if (state === "failed" || state === "stopped") heat.clear();
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() =>
      ours.running?.sendNotification("ridgeline/trust", { trusted: true }),
    ),
  );
  // In the background: neither opening a file nor activation waits for Python. A failure stands in the status item.
  ours.start().catch(() => undefined);
  log.info(`Activated in ${(performance.now() - began).toFixed(1)} ms`);
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}
