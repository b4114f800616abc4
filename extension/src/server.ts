// The language server's life: one process a window, started in the background, restarted when its interpreter changes.
import * as path from "node:path";
import * as vscode from "vscode";
import { LanguageClient, RevealOutputChannelOn, State } from "vscode-languageclient/node";
import { type Interpreter, type Interpreters, isNewEnough, OLDEST_PYTHON } from "./interpreter";
import { CLIENT_COMMANDS, SERVER_COMMANDS } from "./protocol";

export type ServerState = "starting" | "ready" | "stopped" | "failed";

const RESTARTS = 3;
const STOP_TIMEOUT_MS = 5_000;

/** Registers what a fresh client must listen to; called for each client before it starts. */
export type Wire = (client: LanguageClient) => vscode.Disposable[];

export class Server implements vscode.Disposable {
  private client: LanguageClient | undefined;
  private wires: vscode.Disposable[] = [];
  private queue: Promise<unknown> = Promise.resolve();
  private readonly changed = new vscode.EventEmitter<ServerState>();
  readonly onDidChangeState = this.changed.event;
  state: ServerState = "stopped";
  interpreter: Interpreter | undefined;
  failure: string | undefined;

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly interpreters: Interpreters,
    private readonly log: vscode.LogOutputChannel,
    private readonly wire: Wire,
  ) {}

  /** The running client, started if need be. Throws an error in words when there is no interpreter for it. */
  start(): Promise<LanguageClient> {
    return this.enqueue(async () => this.client ?? this.launch());
  }

  /** The client when it runs; nothing is started for the asking. */
  get running(): LanguageClient | undefined {
    return this.state === "ready" ? this.client : undefined;
  }

  restart(): Promise<LanguageClient> {
    return this.enqueue(async () => {
      await this.shutDown();
      return this.launch();
    });
  }

  /** After a change of interpreter: restarts only when the server's own command is another one now. */
  async follow(): Promise<void> {
    const next = await this.interpreters.forServer();
    if (this.state === "failed" || (this.client && next.path !== this.interpreter?.path)) await this.restart();
  }

  stop(): Promise<void> {
    return this.enqueue(() => this.shutDown());
  }

  dispose(): void {
    this.changed.dispose();
  }

  // Starts and stops must not overlap: two clients would register the same commands.
  private enqueue<T>(work: () => Promise<T>): Promise<T> {
    const next = this.queue.then(work, work);
    this.queue = next.catch(() => undefined);
    return next;
  }

  private async launch(): Promise<LanguageClient> {
    this.become("starting");
    try {
      this.interpreter = await this.interpreters.forServer();
      const { problem, path: python } = this.interpreter;
      if (problem) throw new Error(problem);
      if (!isNewEnough(this.interpreter))
        throw new Error(
          `${python} is Python ${this.interpreter.version?.join(".")}; ${OLDEST_PYTHON.join(".")} is needed`,
        );
      this.client = this.create(python);
      this.wires = [...this.wire(this.client), this.client.onDidChangeState(({ newState }) => this.follows(newState))];
      await this.client.start();
      this.become("ready");
      return this.client;
    } catch (error) {
      await this.shutDown();
      this.failure = (error as Error).message;
      this.become("failed");
      this.log.error(`The server did not start: ${this.failure}`);
      throw error;
    }
  }

  private create(python: string): LanguageClient {
    const cache = path.join(this.context.globalStorageUri.fsPath, "pycache");
    // Isolated from the user's packages and variables; the extension's own folder may be read-only, hence the cache.
    const args = ["-I", "-S", "-X", `pycache_prefix=${cache}`, this.context.asAbsolutePath("bundled/boot.py"), "lsp"];
    this.log.info(`Starting ${python} ${args.join(" ")}`);
    return new LanguageClient(
      "ridgeline",
      "Ridgeline",
      { command: python, args, options: { cwd: this.context.globalStorageUri.fsPath } },
      {
        documentSelector: [
          { scheme: "file", language: "python" },
          { scheme: "file", pattern: "**/torchinductor_*/**" },
        ],
        synchronize: { configurationSection: "ridgeline" },
        outputChannel: this.log,
        revealOutputChannelOn: RevealOutputChannelOn.Never,
        connectionOptions: { maxRestartCount: RESTARTS },
        markdown: { isTrusted: { enabledCommands: [...CLIENT_COMMANDS, ...SERVER_COMMANDS] }, supportThemeIcons: true },
        initializationOptions: () => ({
          trusted: vscode.workspace.isTrusted,
          client: { annotations: true, tree: true, output: true, openTrace: true, commands: CLIENT_COMMANDS },
        }),
      },
    );
  }

  private follows(state: State): void {
    if (state === State.Running) this.become("ready");
    else if (state === State.Starting) this.become("starting");
    else if (this.state === "ready") this.become("stopped");
  }

  private become(state: ServerState): void {
    this.state = state;
    if (state !== "failed") this.failure = undefined;
    this.changed.fire(state);
  }

  private async shutDown(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    for (const wire of this.wires.splice(0)) wire.dispose();
    if (!client) return;
    try {
      await client.dispose(STOP_TIMEOUT_MS);
    } catch (error) {
      this.log.warn(`The server did not stop in order: ${(error as Error).message}`);
    }
    this.become("stopped");
  }
}
