"""The page says what the profile says, holds all that it needs, and gives nothing away."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ridgeline import analysis, cli_report, profile_io
from ridgeline.cli_common import CommandError
from ridgeline.profile import (
    Allocation,
    CategoryRow,
    Device,
    File,
    Finding,
    Frame,
    Idle,
    Kernel,
    Launch,
    Line,
    Memory,
    Op,
    Peaks,
    ProfileDocument,
    QualityWarning,
    Range,
    Source,
    SourceRef,
    Step,
    Totals,
)
from ridgeline.report import page
from ridgeline.report.breakdown import parts
from ridgeline.report.page_data import page_data
from ridgeline.report.redact import HIDDEN, Redactor
from ridgeline.report.whatif import outcomes, twice_as_fast

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028<!--&\ud800"
TOKEN = "hf_" + "aBcD1234" * 4


@pytest.fixture
def built() -> None:
    if not (page.ASSETS / "page.js").is_file():
        pytest.skip("the page's script is not built; run make web")


def kernel(id: str = "k", **more: Any) -> Kernel:
    given: dict[str, Any] = {
        "name": id, "symbol": id, "device": 0, "category": "gemm", "count": 2, "total_us": 20.0, "min_us": 9.0,
        "q1_us": 9.5, "median_us": 10.0, "q3_us": 10.5, "max_us": 11.0, "exposed_us": 20.0, "bound": "memory",
    }  # fmt: skip
    return Kernel(id=id, **{**given, **more})


def document(*kernels: Kernel, window: float = 100.0, steps: int = 2, **more: Any) -> ProfileDocument:
    device = Device(
        id=0, name="NVIDIA H200", kind="cuda", window_us=window, span_us=window, busy_us=sum(k.total_us for k in kernels),
        peaks=Peaks(source="measured", bandwidth_gb_s=4000.0, flops={"bf16": 8e14}),
    )  # fmt: skip
    source = Source(kind="run", path="/home/wendeline/work/train.py", steps=steps)
    return ProfileDocument(**{"source": source, "devices": [device], "kernels": list(kernels), **more})


class Tags(HTMLParser):
    """The elements of a page, and the text of each by its id or else its name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._inside: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = dict(attrs).get("id") or tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self.texts[self._inside] = self.texts.get(self._inside, "") + data


# -- figures -----------------------------------------------------------------------------------------------------------

# workload: a step, idle per cent, device time a step. Reckoned from the traces' own events by `reckoned`.
GOLDEN = {
    "encoder_cudagraph": (6193.018, 46.304, 3325.402),
    "encoder_train": (28779.009, 88.603, 3280.040),
    "matmul_add_4096_c0": (316.210, 37.298, 198.271),
    "matmul_add_4096_c1": (899.824, 78.376, 194.580),
    "matmul_add_64_c0": (263.045, 98.950, 2.763),
    "matmul_add_64_c1": (491.463, 99.449, 2.709),
    "mixnet_train": (463938.814, 87.258, 59116.162),
    "mlp_train": (4676.437, 34.453, 3065.287),
    "slow_habits": (19402.871, 98.264, 336.767),
    "user_triton": (1171.730, 70.549, 345.085),
}


def reckoned(trace: Path) -> float:
    """Device time of all recorded steps, straight from the file."""
    with gzip.open(trace) as stream:
        events = json.load(stream)["traceEvents"]
    return sum(float(e["dur"]) for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"))


@pytest.mark.parametrize("workload", sorted(GOLDEN))
def test_figures_of_the_corpus(workload: str, corpus: Path, built: None) -> None:
    trace = corpus / workload / "trace.json.gz"
    text = page.render(page_data(analysis.analyze_paths([trace])))
    data = json.loads(Tags(text).texts["data"])
    step, idle, device = GOLDEN[workload]
    assert data["head"]["step"] == pytest.approx(step, abs=0.001)
    assert data["devices"][0]["idle"] == pytest.approx(idle, abs=0.001)
    total = sum(row["us"] for row in data["kernels"])
    assert total == pytest.approx(device, abs=0.001)
    assert total * (data["head"]["steps"] or 1) == pytest.approx(reckoned(trace), abs=0.01)
    assert sum(row["us"] for row in data["categories"]) == pytest.approx(total)
    # Every part of the step is there once. Kernels overlap by nanoseconds at most in these traces.
    assert sum(part["us"] for part in data["devices"][0]["parts"]) == pytest.approx(step, rel=1e-5)
    assert data["unattributed"]["us"] + sum(row["split"] for row in data["lines"]) == pytest.approx(total)
    if data["phases"] is not None:
        assert sum(data["phases"].values()) == pytest.approx(total)


# microseconds a step of forward, backward and optimizer, with the generated modules at hand
COMPILED = {
    "encoder_cudagraph": (1092.103, 1905.557, 300.574),
    "encoder_train": (1064.940, 1890.462, 296.744),
    "mixnet_train": (14767.133, 44260.681, 76.862),
    "mlp_train": (1082.971, 1556.547, 425.043),
}


@pytest.mark.parametrize("workload", sorted(COMPILED))
def test_a_compiled_step_is_forward_backward_and_optimizer(workload: str, corpus: Path) -> None:
    """Stacks of a compiled function end at its call: what runs is told apart by the graph, not by the line."""
    folder = corpus / workload
    made = analysis.analyze_paths([folder / "trace.json.gz"], generated=folder / "generated.tar.gz")
    phases = page_data(made)["phases"]
    found = (phases["forward"], phases["backward"], phases["optimizer"])
    assert found == pytest.approx(COMPILED[workload], abs=0.001)
    assert phases.get("not known", 0.0) < 0.01 * sum(found)


def test_parts_are_disjoint_and_what_overlaps_is_said() -> None:
    made = document(
        kernel("a", bound="compute", exposed_us=20.0),
        kernel("b", exposed_us=10.0),
        kernel("small", launch=Launch(waves=0.5), exposed_us=5.0),
        kernel("c", category="memcpy", exposed_us=3.0),
        kernel("n", category="communication", exposed_us=2.0),
        kernel("q", bound="unknown", exposed_us=None),
        idle=Idle(launch=30.0, sync=10.0),
    )
    found = {part.name: part.us for part in parts(made, made.devices[0])}
    assert found == {
        "compute": 20, "memory": 10, "underfilled": 5, "copies": 3, "communication": 2, "overlap": 20,
        "idle_launch": 30, "idle_sync": 10,
    }  # fmt: skip
    assert sum(found.values()) == 100


# -- what if -----------------------------------------------------------------------------------------------------------


def test_twice_as_fast_saves_half_of_what_is_exposed() -> None:
    made = document(kernel("k", total_us=40.0, exposed_us=30.0))
    found = twice_as_fast(made, made.kernels[0])
    assert found is not None
    assert (found.low_us, found.estimate_us, found.high_us) == (40.0, 42.5, 50.0)


def test_no_estimate_where_the_device_waits_for_launches() -> None:
    made = document(kernel("k"), idle=Idle(launch=40.0))
    found = twice_as_fast(made, made.kernels[0])
    assert found is not None
    assert found.estimate_us is None
    assert "may turn into waiting" in " ".join(found.assumptions)


def test_a_kernel_at_its_roof_needs_less_work() -> None:
    made = document(kernel("k", memory_pct=88.0, compute_pct=10.0))
    found = twice_as_fast(made, made.kernels[0])
    assert found is not None
    assert any("~88 % of the memory roof" in words for words in found.assumptions)


def test_no_gaps_and_fewer_bits() -> None:
    made = document(kernel("k", compute_pct=40.0, bound_resource="dram"), idle=Idle(launch=20.0))
    found = {outcome.name: outcome for outcome in outcomes(made)}
    assert found["no_gaps"].low_us == 40.0
    assert found["no_gaps"].estimate_us == 41.0  # one launch a step keeps a microsecond
    assert found["int8"].low_us == 50 - 10 / 2
    assert found["int4"].low_us == pytest.approx(50 - 10 * 0.6)  # arithmetic is the limit before the weights are
    assert found["int4"].estimate_us is None


def test_stacks_make_gaps_the_profilers() -> None:
    made = document(kernel("k"), idle=Idle(launch=20.0))
    made.source.recorded_with.stacks = True
    found = next(outcome for outcome in outcomes(made) if outcome.name == "no_gaps")
    assert found.estimate_us is None
    assert "part of these gaps is the profiler's" in " ".join(found.assumptions)


def test_another_devices_roofs() -> None:
    made = document(kernel("m"), kernel("c", bound="compute", bound_resource="tensor"), kernel("l", bound="latency"))
    found = {outcome.name: outcome for outcome in outcomes(made)}["gpu:B200"]
    assert found.estimate_us == pytest.approx(50 + 10 * (4800 / 8000 - 1) + 10 * (989.4 / 2250 - 1))
    for outcome in outcomes(made):
        assert outcome.low_us <= (outcome.estimate_us or outcome.low_us) <= outcome.high_us


def test_where_bounds_are_not_known_nothing_is_guessed() -> None:
    made = document(kernel("u", bound="unknown"), kernel("m", bound="compute", bound_resource="tensor"))
    found = {outcome.name: outcome for outcome in outcomes(made)}
    assert (found["int8"].low_us, found["int8"].estimate_us, found["int8"].high_us) == (45.0, None, 50.0)
    assert found["gpu:B200"].estimate_us is None
    assert found["gpu:B200"].assumptions[0].startswith("the bound of 50 %")


# -- a page that can be sent -------------------------------------------------------------------------------------------


def hostile() -> ProfileDocument:
    place = Frame(file=f"/home/wendeline/work/{HOSTILE}.py", line=3)
    return document(
        kernel(
            HOSTILE, name=HOSTILE, symbol=HOSTILE, aten=[HOSTILE], bound_reason=HOSTILE,
            source=[SourceRef(file=HOSTILE, line=1, text=HOSTILE)],
        ),
        lines=[Line(file=HOSTILE, line=1, text=HOSTILE, device_us=1.0, unsplit_us=1.0)],
        ops=[Op(name=HOSTILE, count=1, self_cpu_us=1.0, cpu_us=1.0, input_shapes=HOSTILE, source=place)],
        ranges=[Range(name=HOSTILE, count=1, wall_us=1.0, source=place)],
        findings=[Finding(code="launch-bound", title=HOSTILE, severity="warning", message=HOSTILE)],
        memory=Memory(device=0, peak_bytes=9, timeline=[(0.0, 1), (1.0, 9)], top=[Allocation(bytes=9, op=HOSTILE)]),
        categories=[CategoryRow(device=0, category="gemm", time_us=20.0, share_pct=100.0, count=2)],
        totals=Totals(wall_us=100.0),
    )  # fmt: skip


def test_names_cannot_become_markup(built: None) -> None:
    made = hostile()
    made.steps = [Step(name=HOSTILE, start_us=0.0, wall_us=1.0)]
    made.source.path = HOSTILE
    made.devices[0].name = HOSTILE
    made.quality.warnings.append(QualityWarning(code="x", message=HOSTILE))
    text = page.render(page_data(made))
    text.encode("utf-8")
    found = Tags(text)
    harmless = Tags(page.render(page_data(document())))
    assert [tag for tag, _ in found.tags] == [tag for tag, _ in harmless.tags]
    assert json.loads(found.texts["data"])["ops"][0]["name"] == HOSTILE


def test_everything_is_in_the_page(built: None) -> None:
    text = page.render(page_data(document(kernel())))
    for tag, attributes in Tags(text).tags:
        assert not {"src", "href", "srcset", "action", "background", "poster"} & attributes.keys(), tag
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    script = text[text.rindex("<script>") + 8 : text.rindex("</script>")]
    for word in (r"\bfetch\(", "XMLHttpRequest", "WebSocket", "EventSource", "sendBeacon", r"\bimport\("):
        assert re.search(word, script) is None, word
    code = re.sub(r"/\*!.*?\*/", "", script, flags=re.DOTALL)
    assert set(re.findall(r"https?://([\w.-]+)", code)) <= {"www.w3.org"}, "namespaces alone"
    policy = next(a["content"] or "" for tag, a in Tags(text).tags if "http-equiv" in a)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; script-src 'sha256-{digest}';")
    assert "Permission to use, copy, modify" in script, "the licences of what is bundled"


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["train.py", "--hf-token", "abc", "--lr", "1"], ["train.py", "--hf-token", HIDDEN, "--lr", "1"]),
        (["--api-key=abc", "--apiKey", "abc"], [f"--api-key={HIDDEN}", "--apiKey", HIDDEN]),
        (["WANDB_API_KEY=abc", "DB_PASSWORD=x"], [f"WANDB_API_KEY={HIDDEN}", f"DB_PASSWORD={HIDDEN}"]),
        (["--max-tokens", "512", "--tokenizer=gpt2"], ["--max-tokens", "512", "--tokenizer=gpt2"]),
        (["--sort-key", "time", "--author", "me"], ["--sort-key", "time", "--author", "me"]),
        (["--hub", TOKEN, "AKIAABCDEFGHIJKLMNOP"], ["--hub", HIDDEN, HIDDEN]),
        (["s3://me:pass@host/x"], [f"s3://{HIDDEN}@host/x"]),
        (["--seed", "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3"], ["--seed", HIDDEN]),
        (["--sha", "d2c76b8fa9d6f0a4be3a0d52fb8b8d7b3a3c"], ["--sha", "d2c76b8fa9d6f0a4be3a0d52fb8b8d7b3a3c"]),
        (["--data", "/home/wendeline/secrets/set.bin"], ["--data", "set.bin"]),
        (["--token", "--lr", "1"], ["--token", "--lr", "1"]),
    ],
)
def test_secrets_in_a_command_line(argv: list[str], shown: list[str]) -> None:
    assert Redactor(document()).argv(argv) == shown


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('api_key = "k1234567"', f'api_key = "{HIDDEN}"'),
        (f"login(token='{TOKEN}')", f"login(token='{HIDDEN}')"),
        ('headers = {"Authorization": "Bearer abcdefgh12345"}', f'headers = {{"Authorization": "Bearer {HIDDEN}"}}'),
        ("tokens = tokenizer(text, padding=True)", "tokens = tokenizer(text, padding=True)"),
        ("next_token = logits.argmax(-1)", "next_token = logits.argmax(-1)"),
        ("y = a / b / c", "y = a / b / c"),
        ("gcc -I/home/bob/inc/x.h", "gcc -I~/inc/x.h"),
        ("in file:///Users/bob/w/x.py", "in file://~/w/x.py"),
        (r"at C:\Users\bob", "at ~"),
        ("kept in /home/bob/", "kept in ~/"),
        ("see https://host/a/b/c", "see https://host/a/b/c"),
        ('x = torch.load("/home/wendeline/w/x.pt")', 'x = torch.load("x.pt")'),
    ],
)
def test_secrets_in_lines(line: str, shown: str) -> None:
    assert Redactor(document()).text(line) == shown


def test_folders_of_the_person_stay_at_home(built: None) -> None:
    generated = "/tmp/torchinductor_wendeline/ab/cabc.py"
    made = document(
        kernel(source=[SourceRef(file="/home/wendeline/work/models/net.py", line=7, function="f")]),
        files=[
            File(path="/home/wendeline/work/train.py"),
            File(path="/home/wendeline/work/models/net.py"),
            File(path="/home/wendeline/env/lib/python3.12/site-packages/torch/nn/modules/linear.py", kind="library"),
            File(path=generated, kind="generated"),
        ],
        ops=[
            Op(name="a", count=1, self_cpu_us=1, cpu_us=1, source=Frame(file=path, line=1))
            for path in ("/home/wendeline/env/lib/python3.12/site-packages/torch/nn/modules/linear.py", generated)
        ],
        findings=[
            Finding(
                code="padding", title="t", severity="hint", message=f"see {generated}:3 and /home/wendeline/work/train.py",
                evidence={"secret": "/home/wendeline/evidence"},
            )
        ],
    )  # fmt: skip
    made.source.argv = ["/home/wendeline/work/train.py", "--token", "abc123"]
    text = page.render(page_data(made))
    assert "wendeline" not in text
    assert "abc123" not in text
    data = json.loads(Tags(text).texts["data"])
    assert data["kernels"][0]["places"] == ["models/net.py:7"]
    assert [op["place"] for op in data["ops"]] == ["torch/nn/modules/linear.py:1", "ab/cabc.py:1"]
    assert data["findings"][0]["message"] == "see ab/cabc.py:3 and train.py"
    assert data["redacted"] == 1


# -- the command -------------------------------------------------------------------------------------------------------


def test_runs_recorded_differently_compare_device_time(
    corpus: Path, tmp_path: Path, built: None, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "r.html"
    before, after = (str(corpus / name / "trace.json.gz") for name in ("encoder_train", "encoder_cudagraph"))
    cli_report.run(after, before=before, output=target, quiet=False)
    assert capsys.readouterr().out == f"{target}\n"
    found = json.loads(Tags(target.read_text(encoding="utf-8")).texts["data"])["comparison"]
    assert found["step"] is None
    assert any("recorded with stacks" in reason for reason in found["refused"])
    assert found["device"]["before"] == pytest.approx(3280.040, abs=0.001)
    assert found["device"]["after"] == pytest.approx(3325.402, abs=0.001)


def test_what_is_no_report_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: None, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    profile_io.write(document(kernel()), tmp_path / "mine.json")
    cli_report.run("mine.json", before=None, output=None, quiet=True)
    cli_report.run("mine.json", before=None, output=None, quiet=True)
    assert capsys.readouterr().out == "mine.html\nmine.html\n"
    (tmp_path / "mine.html").write_text("<html>thesis</html>")
    with pytest.raises(CommandError, match=r"mine\.html exists and is no report"):
        cli_report.run("mine.json", before=None, output=None, quiet=True)
    assert (tmp_path / "mine.html").read_text() == "<html>thesis</html>"


def test_an_installation_without_the_script_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "ASSETS", tmp_path / "none")
    profile_io.write(document(kernel()), tmp_path / "p.json")
    with pytest.raises(CommandError, match="make web"):
        cli_report.run(str(tmp_path / "p.json"), before=None, output=tmp_path / "o.html", quiet=True)
    assert not (tmp_path / "o.html").exists()
