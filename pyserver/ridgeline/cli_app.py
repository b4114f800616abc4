"""The commands and their options. Each body stands in a module of its own, imported when the command runs."""

from __future__ import annotations

import errno
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ridgeline import __version__
from ridgeline.cli_common import FAILED, INTERRUPTED, USAGE, CommandError, prepare_streams, say

# Newer versions of typer carry click inside, older ones depend on it: its base class by way of one that both export.
ClickException: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

app = typer.Typer(
    name="ridgeline",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

Format = Annotated[str, typer.Option("--format", help="text or json.", metavar="text|json")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the result to a file.", dir_okay=False)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no remarks.")]
Python = Annotated[str | None, typer.Option("--python", help="Interpreter for the program (the one that has torch).")]
Cwd = Annotated[Path | None, typer.Option("--cwd", help="Folder to run in.")]
Env = Annotated[
    list[str] | None, typer.Option("--env", help="Environment variable for the program; repeatable.", metavar="K=V")
]
Category = Annotated[
    list[str] | None,
    typer.Option(
        help="A category of your own: kernels whose name fits the pattern; repeatable.", metavar="NAME=PATTERN"
    ),
]
RunDir = Annotated[
    Path | None,
    typer.Option(
        "--run-dir", help="Folder to keep runs in (also RIDGELINE_RUN_DIR); default: the user's state folder."
    ),
]


@app.callback(invoke_without_command=True)
def ridgeline(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Kernel timings on your source lines."""
    if version:
        print(f"ridgeline {__version__}")
        raise typer.Exit


@app.command()
def profile(
    target: Annotated[
        str, typer.Argument(help="A script, a module with -m, or a module that Inductor wrote.", metavar="TARGET")
    ],
    args: Annotated[
        list[str] | None, typer.Argument(help="The program's own arguments, after --.", metavar="[-- ARGS...]")
    ] = None,
    module: Annotated[bool, typer.Option("-m", "--module", help="TARGET is a module, as for python -m.")] = False,
    steps: Annotated[int | None, typer.Option(help="Steps to record (default: what a spread needs).")] = None,
    warmup: Annotated[
        int | None, typer.Option(help="Steps to leave out first (default: until they are steady).")
    ] = None,
    after: Annotated[
        float | None,
        typer.Option(help="Open the window after so many seconds (servers, long jobs).", metavar="SECONDS"),
    ] = None,
    then: Annotated[
        str, typer.Option(help="Once the result is there, the program goes on or is stopped.", metavar="continue|stop")
    ] = "continue",
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Device to record.")] = "auto",
    stacks: Annotated[bool, typer.Option("--stacks", help="Record Python stacks as well (slower).")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="Record allocations as well.")] = False,
    lengths: Annotated[bool, typer.Option("--lengths", help="Sample real sequence lengths, for padding.")] = False,
    no_lines: Annotated[bool, typer.Option("--no-lines", help="Do not follow the program's lines.")] = False,
    ranks: Annotated[str | None, typer.Option(help="Not in this version.", hidden=True)] = None,
    python: Python = None,
    cwd: Cwd = None,
    env: Env = None,
    run_dir: RunDir = None,
    category: Category = None,
    size: Annotated[
        list[str] | None,
        typer.Option(help="Of a generated module: a size that its file leaves open; repeatable.", metavar="s77=4096"),
    ] = None,
    format: Format = "text",
    output: Output = None,
    quiet: Quiet = False,
) -> None:
    """Run a program unchanged and show where its device time goes, line by line."""
    from ridgeline.cli_profile import Request, run

    if ranks is not None:
        raise CommandError(
            "--ranks is not in this version; each rank can be profiled: torchrun --no-python ridgeline profile TARGET"
        )

    request = Request(
        target=target,
        args=args or [],
        module=module,
        steps=steps,
        warmup=warmup,
        after=after,
        then=then,
        device=device,
        stacks=stacks,
        memory=memory,
        lengths=lengths,
        lines=not no_lines,
        python=python,
        cwd=cwd,
        env=env or [],
        run_dir=run_dir,
        format=format,
        output=output,
        quiet=quiet,
        category=category or [],
        size=size or [],
    )
    raise typer.Exit(run(request))


@app.command()
def analyze(
    paths: Annotated[
        list[Path],
        typer.Argument(help="A trace (.json, .json.gz), a run folder, or several ranks' traces.", metavar="PATH..."),
    ],
    generated: Annotated[
        Path | None, typer.Option(help="Where the generated modules are, if not where the trace says.")
    ] = None,
    provenance: Annotated[
        Path | None, typer.Option(help="A TORCH_TRACE folder or log recorded with the trace.")
    ] = None,
    source_root: Annotated[
        list[str] | None, typer.Option(help="Where a recorded folder lies here; repeatable.", metavar="OLD=NEW")
    ] = None,
    select_steps: Annotated[
        str | None, typer.Option(help="Only these steps, from A up to but not including B.", metavar="A:B")
    ] = None,
    steps_per_day: Annotated[
        float | None,
        typer.Option(
            help="Steps the program makes a day, for savings a day (default: one after another).", metavar="N"
        ),
    ] = None,
    category: Category = None,
    format: Format = "text",
    output: Output = None,
    quiet: Quiet = False,
) -> None:
    """Show a trace that was recorded anywhere."""
    from ridgeline.cli_analyze import run

    run(
        paths,
        generated=generated,
        provenance=provenance,
        source_root=source_root or [],
        select_steps=select_steps,
        steps_per_day=steps_per_day,
        format=format,
        output=output,
        quiet=quiet,
        category=category or [],
    )


@app.command()
def compare(
    before: Annotated[str, typer.Argument(help="A run, a trace or a saved profile.", metavar="BEFORE")],
    after: Annotated[str, typer.Argument(help="The one to compare with it.", metavar="AFTER")],
    fail_on: Annotated[
        str | None,
        typer.Option(help="Exit with 1 when AFTER is slower by more than this and the noise.", metavar="PCT"),
    ] = None,
    format: Format = "text",
    output: Output = None,
) -> None:
    """What changed between two runs, told from noise."""
    from ridgeline.cli_compare import run

    raise typer.Exit(run(before, after, fail_on=fail_on, format=format, output=output))


@app.command()
def bench(
    file: Annotated[
        Path,
        typer.Argument(
            help="A generated module or kernel file, or a program with @triton.jit kernels.", metavar="FILE"
        ),
    ],
    kernel: Annotated[
        str | None, typer.Option(help="Only this kernel of the module (by the name that it has there).", metavar="NAME")
    ] = None,
    cold_cache: Annotated[
        bool | None, typer.Option("--cold-cache/--warm-cache", help="Only this state of the cache (default: both).")
    ] = None,
    copy: Annotated[
        Path | None,
        typer.Option(
            help="Measure nothing; write a copy to edit (with --kernel, of that kernel alone).",
            metavar="NEW_FILE",
            dir_okay=False,
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            help="An edited copy: its kernels beside FILE's on the same arguments, outputs compared.", metavar="EDITED"
        ),
    ] = None,
    rtol: Annotated[
        float | None,
        typer.Option(help="With --against: relative tolerance of outputs (default: the element type's).", min=0),
    ] = None,
    atol: Annotated[
        float | None, typer.Option(help="With --against: absolute tolerance (default: the element type's).", min=0)
    ] = None,
    autotune: Annotated[
        str,
        typer.Option(
            metavar="off|verify", help="verify: is a wider search of configurations worth it? (Triton kernels)"
        ),
    ] = "off",
    exposed_share: Annotated[
        float | None,
        typer.Option(
            help="With --autotune verify: the part of a step that only this kernel fills, 0 to 1, for the gain of the step.",
            min=0,
            max=1,
            metavar="PART",
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            help="For a program's own @triton.jit kernels: the run whose arguments to take (default: its newest).",
            metavar="RUN",
        ),
    ] = None,
    size: Annotated[
        list[str] | None,
        typer.Option(help="A size that the file leaves open; repeatable.", metavar="u0=4096"),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds to measure for; what is at work then has a minute to end.", min=1)
    ] = 300.0,
    python: Python = None,
    cwd: Cwd = None,
    env: Env = None,
    format: Format = "text",
    output: Output = None,
) -> None:
    """Benchmark a generated kernel, or every kernel of a generated module; or an edited copy against its original.

    A workbench in two commands: ridgeline bench FILE --copy mine.py --kernel NAME, edit mine.py, then
    ridgeline bench FILE --against mine.py --kernel NAME.

    Exit status: 0 measured; 1 nothing could be measured, or the outputs of the edited copy differ; 2 bad usage.
    """
    from ridgeline.cli_bench import Request
    from ridgeline.cli_bench import run as measure

    request = Request(
        file=file,
        run=run,
        autotune=autotune,
        cold=cold_cache,
        timeout=timeout,
        kernel=kernel,
        size=size or [],
        exposed_share=exposed_share,
        against=against,
        copy=copy,
        rtol=rtol,
        atol=atol,
        python=python,
        cwd=cwd,
        env=env or [],
        format=format,
        output=output,
    )
    raise typer.Exit(measure(request))


@app.command()
def report(
    what: Annotated[str, typer.Argument(help="A run, a trace or a saved profile.", metavar="RUN")],
    before: Annotated[
        str | None, typer.Option(help="Compare with this earlier run, trace or profile.", metavar="RUN")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page's file (default: NAME.html here).", dir_okay=False)
    ] = None,
    quiet: Quiet = False,
) -> None:
    """One HTML page with everything in it, to look at or to send."""
    from ridgeline.cli_report import run

    run(what, before=before, output=output, quiet=quiet)


@app.command(name="open")
def open_(
    what: Annotated[str, typer.Argument(help="A run folder, a run's target, or a trace.", metavar="RUN|TRACE")],
    kernel: Annotated[str | None, typer.Option(help="Select this kernel's launch (id or name).")] = None,
    browser: Annotated[bool, typer.Option(help="Open a browser where there is a display.")] = True,
    idle: Annotated[float, typer.Option(help="Stop after this many seconds without a request.", min=1)] = 900,
    announce: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Open the trace in Perfetto, served from this machine alone."""
    from ridgeline.cli_open import run

    raise typer.Exit(run(what, kernel=kernel, browser=browser, announce=announce, idle_s=idle))


@app.command()
def doctor(
    python: Python = None, cwd: Cwd = None, format: Format = "text", output: Output = None, run_dir: RunDir = None
) -> None:
    """What is installed, what will work here, and how to mend what will not."""
    from ridgeline.cli_doctor import run

    raise typer.Exit(run(python=python, cwd=cwd, format=format, output=output, run_dir=run_dir))


@app.command()
def time(
    statement: Annotated[
        str | None, typer.Argument(help="A Python expression or statement.", metavar="STATEMENT")
    ] = None,
    of: Annotated[
        Path | None, typer.Option("--of", help="Time what this run's findings ask for instead.", metavar="RUN")
    ] = None,
    setup: Annotated[str, typer.Option(help="Run once before.", metavar="CODE")] = "pass",
    threads: Annotated[int, typer.Option(help="torch's threads within an operation.", min=1)] = 1,
    min_run_time: Annotated[float, typer.Option(help="Seconds to measure for.", min=0.01)] = 1.0,
    python: Python = None,
    cwd: Cwd = None,
    env: Env = None,
    format: Format = "text",
    output: Output = None,
) -> None:
    """Time one expression with torch.utils.benchmark in the program's interpreter."""
    from ridgeline.cli_time import run, run_of

    if (statement is None) == (of is None):
        raise CommandError("time takes a statement, or --of RUN")
    if of is not None:
        run_of(
            of, threads=threads, min_run_time=min_run_time, python=python, env=env or [], format=format, output=output
        )
        return
    assert statement is not None
    run(
        statement,
        setup=setup,
        threads=threads,
        min_run_time=min_run_time,
        python=python,
        cwd=cwd,
        env=env or [],
        format=format,
        output=output,
    )


@app.command()
def lsp() -> None:
    """The language server on standard input and output."""
    raise CommandError("lsp takes its place right after the name: ridgeline lsp")


def run() -> int:
    """Runs the command line of ``sys.argv``; the exit status."""
    prepare_streams()
    try:
        result = app(standalone_mode=False)
    except CommandError as error:
        say(str(error))
        return error.status
    except typer.Abort:
        return INTERRUPTED
    except ClickException as error:
        return _usage(error)
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe (head, less) has seen enough; keep Python from complaining about the flush at exit.
        sys.stdout = None
        return 0
    except Exception as error:  # noqa: BLE001 - the last line of defence: a message and 125, as CONTRACT says
        if isinstance(error, OSError) and error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            name = str(error.filename)
            say(f"cannot read {name[:100]}{'…' if len(name) > 100 else ''}: {error.strerror}")
            return USAGE
        import traceback

        traceback.print_exc()
        say(f"failed itself: {type(error).__name__}: {error}")
        return FAILED
    return result if isinstance(result, int) else 0


def _usage(error: Any) -> int:
    """One line for a wrong command line; help where no command was given at all."""
    message = error.format_message()
    if "Usage:" in message:
        print(message)
    elif type(error).__name__ == "NoSuchOption" and getattr(error.ctx, "info_name", None) == "profile":
        say(f"{message.rstrip('.')}; the program's own options go after --")
    else:
        command = getattr(error.ctx, "info_name", None)
        named = f" {command}" if command and getattr(error.ctx, "parent", None) is not None else ""
        say(f"{message.rstrip('.')}; see ridgeline{named} --help")
    return int(error.exit_code)
