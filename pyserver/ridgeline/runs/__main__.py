"""The supervisor's process: ``python -I -S …/ridgeline/runs/__main__.py SPEC [--control-fd N] [--events-fd N]``.

Events go to standard output (or ``--events-fd``), ``cancel`` comes on standard input (or ``--control-fd``), whose end
means that the parent died. Also ``python -m ridgeline.runs``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if not __package__:  # Started by path, isolated: our own packages first.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def main(argv: list[str] | None = None) -> int:
    """0 when the run came to an end, whatever the end; 2 for a bad specification."""
    from ridgeline.runs import processes
    from ridgeline.runs.folder import RunFolder
    from ridgeline.runs.progress import Events
    from ridgeline.runs.spec import RunSpec, SpecError
    from ridgeline.runs.supervisor import Supervisor

    parser = argparse.ArgumentParser(
        prog="ridgeline.runs", description="Looks after one run (started by Ridgeline itself)."
    )
    parser.add_argument("spec", type=Path, help="specification in a run folder; deleted once read")
    parser.add_argument("--control-fd", type=int, default=0)
    parser.add_argument("--events-fd", type=int, default=1)
    asked = parser.parse_args(argv)
    try:
        spec = RunSpec.from_json(asked.spec.read_text(encoding="utf-8"))
        asked.spec.unlink()
    except (OSError, SpecError) as error:
        print(f"ridgeline: cannot read {asked.spec}: {error}", file=sys.stderr)
        return 2

    def supervise() -> int:
        Supervisor(spec, RunFolder(asked.spec.resolve().parent), Events(asked.events_fd), asked.control_fd).run()
        return 0

    return processes.guarded(supervise)


if __name__ == "__main__":
    sys.exit(main())
