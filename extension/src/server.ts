// The language server's life: one process a window, started in the background, restarted when its interpreter changes.
import * as path from "node:path";
import * as vscode from "vscode";
import {
  CloseAction,
  ErrorAction,
  ErrorCodes,
  LanguageClient,
  type Middleware,
  RevealOutputChannelOn,
  State,
} from "vscode-languageclient/node";
import { type Interpreter, type Interpreters, isNewEnough, OLDEST_PYTHON } from "./interpreter";
import { CLIENT_COMMANDS, SERVER_COMMANDS } from "./protocol";

export type ServerState = "starting" | "ready" | "stopped" | "failed";

const RESTARTS = 3;
const RESTARTS_WITHIN_MS = 180_000;
const STOP_TIMEOUT_MS = 5_000;

/** The library would show its own message for each thing that goes wrong; ours has a cause and stands in one place. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

/** Runs a server command with what only this client knows, and shows that it runs. */
export type Around = NonNullable<Middleware["executeCommand"]>;

/** Registers what a fresh client must listen to; called for each client before it starts. */
export type Wire = (client: LanguageClient) => vscode.Disposable[];

export class Server implements vscode.Disposable {
  private client: LanguageClient | undefined;
  private wires: vscode.Disposable[] = [];
  private queue: Promise<unknown> = Promise.resolve();
  private deaths: number[] = [];
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
    private readonly around: Around,
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
      // The library's own words tell nothing when the process ended; what it said last stands in the log.
      const ended = (error as { code?: number }).code === ErrorCodes.PendingResponseRejected;
      this.fail(ended ? "it ended while it started; the log has its last words" : (error as Error).message);
      throw new Error(`The server of Ridgeline does not run: ${this.failure}`);
    }
  }

  private create(python: string): LanguageClient {
    const cache = path.join(this.context.globalStorageUri.fsPath, "pycache");
    // Isolated from the user's packages and variables; the extension's own folder may be read-only, hence the cache.
    const args = ["-I", "-S", "-X", `pycache_prefix=${cache}`, this.context.asAbsolutePath("bundled/boot.py")];
    this.log.info(`Starting ${python} ${args.join(" ")}`);
    return new QuietClient(
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
        // A server that ends is started again by `follows`, through the same queue as everything else.
        errorHandler: {
          error: () => ({ action: ErrorAction.Continue, handled: true }),
          closed: () => ({ action: CloseAction.DoNotRestart, handled: true }),
        },
        initializationFailedHandler: () => false,
        markdown: { isTrusted: { enabledCommands: [...CLIENT_COMMANDS, ...SERVER_COMMANDS] }, supportThemeIcons: true },
        middleware: { executeCommand: this.around },
        initializationOptions: () => ({
          trusted: vscode.workspace.isTrusted,
          // The server asks for them as well; with these it need not look at another folder's runs first.
          settings: vscode.workspace.getConfiguration("ridgeline", vscode.workspace.workspaceFolders?.[0]),
          client: { annotations: true, tree: true, output: true, openTrace: true, commands: CLIENT_COMMANDS },
        }),
      },
    );
  }

  private follows(state: State): void {
    if (state !== State.Stopped || this.state !== "ready") return;
    this.become("stopped");
    const now = Date.now();
    this.deaths = [...this.deaths.filter((time) => now - time < RESTARTS_WITHIN_MS), now];
    if (this.deaths.length <= RESTARTS) this.restart().catch(() => undefined);
    else this.fail(`it ended ${this.deaths.length} times in three minutes`);
  }

  private fail(why: string): void {
    this.failure = why;
    this.become("failed");
    this.log.error(`The server does not run: ${why}`);
  }

  private become(state: ServerState): void {
    this.state = state;
    if (state !== "failed") this.failure = undefined;
    this.log.info(`Server ${state}`);
    this.changed.fire(state);
  }

  private async shutDown(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    for (const wire of this.wires.splice(0)) wire.dispose();
    if (!client) return;
    if (client.state === State.Running) {
      this.state = "stopped";
      await client
        .dispose(STOP_TIMEOUT_MS)
        .catch((error) => this.log.warn(`The server did not stop in order: ${error}`));
    }
    this.become("stopped");
  }
}
