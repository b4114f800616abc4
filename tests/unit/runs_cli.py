"""The command line with the stand-ins for agent and analysis (no torch needed): ``python runs_cli.py profile …``."""

import os
import sys
from pathlib import Path

from ridgeline import cli_profile
from ridgeline.cli import main
from ridgeline.runs.spec import RunSpec

HERE = Path(__file__).resolve().parent
_spec = cli_profile.Request.spec


def spec(request: cli_profile.Request) -> RunSpec:
    made = _spec(request)
    made.agent = str(HERE / "runs_fake_agent.py")
    made.analysis = [sys.executable, str(HERE / "runs_fake_analysis.py")]
    return made


cli_profile._PATIENCE_S = float(os.environ.get("RIDGELINE_TEST_PATIENCE", cli_profile._PATIENCE_S))
cli_profile.Request.spec = spec  # type: ignore[method-assign]
if __name__ == "__main__":
    main()
