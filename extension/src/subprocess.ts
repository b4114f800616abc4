// Short-lived helper processes: probes of interpreters.
import { spawn } from "node:child_process";

export interface Finished {
  status: number | null;
  stdout: string;
  stderr: string;
}

export interface RunOptions {
  cwd: string;
  timeoutMs: number;
}

/** Runs a program without a shell, in a group of its own that is killed on timeout. Rejects when it cannot start. */
export function run(command: string, args: string[], options: RunOptions): Promise<Finished> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env };
    for (const name of ["ELECTRON_RUN_AS_NODE", "PYTHONHOME", "PYTHONSTARTUP"]) delete env[name];
    const posix = process.platform !== "win32";
    const child = spawn(command, args, { cwd: options.cwd, env, stdio: ["ignore", "pipe", "pipe"], detached: posix });
    const kill = () => {
      if (child.pid === undefined) return;
      if (!posix) return void child.kill();
      try {
        process.kill(-child.pid, "SIGKILL");
      } catch {
        // The group is gone already.
      }
    };
    const timer = setTimeout(kill, options.timeoutMs);
    const finished: Finished = { status: null, stdout: "", stderr: "" };
    for (const stream of ["stdout", "stderr"] as const) {
      child[stream].setEncoding("utf8").on("data", (text: string) => {
        finished[stream] += text;
      });
    }
    child.on("error", (error) => {
      clearTimeout(timer);
      reject(error);
    });
    child.on("close", (status) => {
      clearTimeout(timer);
      resolve({ ...finished, status });
    });
  });
}
