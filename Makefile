# The two that matter: `make profile` shows what Ridgeline does, `make test` proves that it works here.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXAMPLE ?= examples/compiled_transformer.py
# One Inductor cache for all tests that may share it: compiling dominates.
export TORCHINDUCTOR_CACHE_DIR ?= $(CURDIR)/.cache/inductor
PYTEST := $(BIN)/python -m pytest

.PHONY: profile test check format unit editor soak bench lock clean

profile: $(VENV)/.ready
	$(BIN)/ridgeline profile --then stop $(EXAMPLE)

test: check unit editor

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: $(VENV)/.ready
	$(PYTEST) -m "not soak and not editor" -n 2 --dist loadgroup

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

soak: $(VENV)/.ready
	$(PYTEST) -m soak -s

# The measured tables; nothing fails on a clock.
bench: $(VENV)/.ready
	$(BIN)/python tests/benchmarks/trace_load.py

lock: $(VENV)/.ready
	$(BIN)/pip install -q pip-tools
	$(BIN)/pip-compile -q --extra dev --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-annotate --no-header --allow-unsafe -o requirements/dev.lock pyproject.toml

$(VENV)/.ready: pyproject.toml requirements/dev.lock
	scripts/system.sh python3-venv python3-dev g++
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip
	$(BIN)/pip install -q -r requirements/dev.lock
	$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	touch $@

clean:
	rm -rf $(VENV) .cache artifacts extension/node_modules extension/dist extension/bundled
