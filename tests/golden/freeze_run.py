"""Pack a run folder as golden data: paths of the machine that recorded it become /home/user/project.

    python tests/golden/freeze_run.py RUN_FOLDER OUT.tar.gz PREFIX

``PREFIX`` is the folder that the program ran in. Snapshots keep their content, so their digests hold.
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from pathlib import Path

PLACE = b"/home/user/project"
LEFT_OUT = {"log.txt", "progress.jsonl", "spec.json", "captured", "profile.json"}


def main() -> None:
    run, out, prefix = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3].rstrip("/").encode()
    with tarfile.open(out, "w:gz", compresslevel=9) as tar:
        for path in sorted(run.rglob("*")):
            if not path.is_file() or path.name in LEFT_OUT or "index" in path.parts:
                continue
            data = path.read_bytes()
            if path.name.endswith("trace.json.gz"):
                data = gzip.compress(gzip.decompress(data).replace(prefix, PLACE), 9, mtime=0)
            elif path.suffix == ".json":
                data = data.replace(prefix, PLACE)
            elif prefix in data:
                raise SystemExit(f"{path} holds {prefix.decode()} and is kept by its digest; record it elsewhere")
            member = tarfile.TarInfo(str(Path(run.name) / path.relative_to(run)))
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    print(out, out.stat().st_size)


if __name__ == "__main__":
    main()
