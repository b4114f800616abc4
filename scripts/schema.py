"""Write docs/profile.schema.json from the types. usage: python scripts/schema.py [--check]"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ridgeline.profile_io import json_schema

TARGET = Path(__file__).resolve().parent.parent / "docs" / "profile.schema.json"


def main() -> int:
    text = json.dumps(json_schema(), indent=1, sort_keys=True) + "\n"
    if "--check" in sys.argv:
        return 0 if TARGET.read_text(encoding="utf-8") == text else 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
