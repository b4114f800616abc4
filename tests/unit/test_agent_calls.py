"""Which calls into torch keep the next recording waiting."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ridgeline.agent.calls import UnfinishedCalls

TORCH = "/library/torch"


def below(file: str) -> Callable[..., Any]:
    """A function of that file which calls what it is given."""
    names: dict[str, Any] = {}
    exec(compile("def call(inner): return inner()", f"{TORCH}/{file}", "exec"), names)
    call: Callable[..., Any] = names["call"]
    return call


def generator_below(file: str) -> Iterator[int]:
    names: dict[str, Any] = {}
    exec(compile("def numbers():\n    while True: yield 1", f"{TORCH}/{file}", "exec"), names)
    made: Iterator[int] = names["numbers"]()
    return made


@pytest.fixture
def calls() -> UnfinishedCalls:
    return UnfinishedCalls(TORCH)


def test_nothing_has_run_at_first(calls: UnfinishedCalls) -> None:
    assert calls.ended()


@pytest.mark.parametrize("file", ["_dynamo/eval_frame.py", "autograd/graph.py", "_ops.py", "_tensor.py"])
def test_a_call_counts_until_it_returns(calls: UnfinishedCalls, file: str) -> None:
    seen = []

    def close_and_ask() -> None:
        calls.note()
        seen.append(calls.ended())

    below(file)(close_and_ask)
    assert seen == [False]
    assert calls.ended()
    below(file)(lambda: seen.append(calls.ended()))  # another call of the same function is another call
    assert seen == [False, True]


@pytest.mark.parametrize("file", ["utils/_contextlib.py", "nn/modules/module.py", "optim/optimizer.py"])
def test_what_whole_programs_run_below_keeps_nothing_waiting(calls: UnfinishedCalls, file: str) -> None:
    seen = []

    def close_and_ask() -> None:
        calls.note()
        seen.append(calls.ended())

    below(file)(close_and_ask)
    assert seen == [True]


def test_only_the_call_that_has_not_returned_is_waited_for(calls: UnfinishedCalls) -> None:
    seen = []

    def outer() -> None:
        below("_ops.py")(calls.note)
        seen.append(calls.ended())

    below("_functorch/aot_autograd.py")(outer)
    assert seen == [False]
    assert calls.ended()


def test_calls_of_other_threads_count(calls: UnfinishedCalls) -> None:
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        inside.set()
        leave.wait()

    thread = threading.Thread(target=below("autograd/graph.py"), args=(stay,))
    thread.start()
    inside.wait()
    calls.note()
    assert not calls.ended()
    leave.set()
    thread.join()
    assert calls.ended()


def test_a_thread_of_torch_itself_keeps_nothing_waiting(calls: UnfinishedCalls) -> None:
    """Inductor's pool of compile workers has one that reads their answers for as long as the process lives: with it no
    recording of a program that compiles for a GPU would ever have opened."""
    leave = threading.Event()
    threads = [
        threading.Thread(target=below("_inductor/compile_worker/subproc_pool.py"), args=(leave.wait,)),
        threading.Thread(target=below("_inductor/compile_worker/subproc_pool.py"), args=(lambda: leave.wait(),)),
    ]
    threads[0].start()
    calls.note()
    assert calls.ended()
    assert calls.waited_for() is None
    threads[1].start()  # the same, but what it calls is not torch's
    calls.note()
    assert not calls.ended()
    assert calls.waited_for() == "call (_inductor/compile_worker/subproc_pool.py)"
    leave.set()
    for thread in threads:
        thread.join()
    assert calls.ended()


@pytest.mark.torch
def test_with_the_real_pool_of_compile_workers() -> None:
    script = """
import os, time, torch
from torch._inductor.async_compile import AsyncCompile
from ridgeline.agent.calls import UnfinishedCalls

calls = UnfinishedCalls(torch.__path__[0])
pool = AsyncCompile.process_pool()
calls.note()
print(calls.ended(), calls.waited_for())
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=Path.home(),
        env={**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "2"},
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "True None\n"), done.stderr[-2000:]


def test_a_suspended_generator_is_not_running(calls: UnfinishedCalls) -> None:
    numbers = generator_below("utils/thing.py")
    next(numbers)
    calls.note()
    assert calls.ended()


def test_arguments_of_a_call_are_let_go_once_it_has_returned(calls: UnfinishedCalls) -> None:
    import weakref

    class Big:
        pass

    def run() -> weakref.ref[Big]:
        big = Big()

        def close(kept: Big = big) -> None:
            calls.note()

        below("_ops.py")(close)
        return weakref.ref(big)

    reference = run()
    assert reference() is not None
    assert calls.ended()
    assert reference() is None


REOPENED = """
import torch
import torch._dynamo.callback
from ridgeline.agent.compiles import CompileWatch
from ridgeline.agent.labels import Scopes
from ridgeline.agent.recorder import Recorder
from ridgeline.agent.spec import Spec

def complain(what, error):
    print("complaint:", what, error)

scopes = Scopes()
scopes.install(torch)
spec = Spec(run_dir="", target="", device="cpu", warmup=1, steps=200)
recorder = Recorder(torch, spec, None, scopes, lambda take: None, lambda *args, **named: None, complain)
seen = []

def compiled():
    recorder.compile_ended()
    seen.append(recorder.state)
    recorder.early_wanted = True
    recorder.early_again()
    seen.append(recorder.state)

CompileWatch(recorder.compile_started, compiled).on_callback(torch._dynamo.callback)
model = torch.nn.Linear(8, 8)
recorder.begin()

def step(model):
    model(torch.ones(4, 8)).square().mean().backward()
    recorder.mark("optimizer", 0)

for _ in range(6):
    step(model)
assert recorder.state == "window", recorder.state
model = torch.compile(model, backend="aot_eager")
for _ in range(30):
    if recorder.early_wanted:
        recorder.early_again()
    step(model)
recorder.stop()
print(seen[:2], recorder.early_wanted, int(recorder.best() is not None))
"""


@pytest.mark.torch
@pytest.mark.timeout(600)
def test_no_recording_opens_inside_the_call_in_which_the_last_one_closed() -> None:
    """The window closes as the compilation begins and another recording is asked for as soon as it has ended, still
    inside the same call: opened there, it damaged the heap, and the program died at its next allocation or so."""
    done = subprocess.run(
        [sys.executable, "-c", REOPENED], capture_output=True, text=True, cwd=Path.home(), check=False
    )
    assert (done.returncode, done.stdout) == (0, "['settle', 'settle'] False 1\n"), done.stderr[-2000:]
