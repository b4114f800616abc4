# The two that matter: `make profile` shows what Ridgeline does, `make test` proves that it works here.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXAMPLE ?= examples/compiled_transformer.py
# One Inductor cache for all tests that may share it: compiling dominates.
export TORCHINDUCTOR_CACHE_DIR ?= $(CURDIR)/.cache/inductor
EXTENSION := $(shell git ls-files extension biome.json scripts/*.mjs)
SERVER := $(shell git ls-files pyserver)
PAGE := pyserver/ridgeline/report/assets/page.js
WEB := extension/esbuild.mjs extension/package-lock.json $(shell git ls-files extension/webview)
PYTEST := $(BIN)/python -m pytest

.PHONY: profile test check format unit web client editor page soak bench lock clean

profile: $(VENV)/.ready
	$(BIN)/ridgeline profile --then stop $(EXAMPLE)

test: check unit client editor page

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	command -v npm >/dev/null || scripts/system.sh nodejs npm
	cd extension && npm ci --no-audit --no-fund --loglevel=error && npm run check

unit: $(VENV)/.ready $(PAGE)
	$(PYTEST) -m "not soak and not editor" -n 2 --dist loadgroup

# The script of `ridgeline report`, which is the editor's overview as well.
web: $(PAGE)

$(PAGE): $(WEB)
	command -v npm >/dev/null || scripts/system.sh nodejs npm
	cd extension && npm ci --no-audit --no-fund --loglevel=error && node esbuild.mjs page

# The VS Code client: the packaged .vsix.
client: extension/ridgeline.vsix

# The packaged extension in a real VS Code, driven through Chromium.
editor: $(VENV)/.ready extension/ridgeline.vsix
	$(PYTEST) -m editor tests/e2e/test_vsix.py
	node tests/e2e/editor/run.mjs

# Reports in Chromium: themes, keys, hostile names, ten thousand kernels.
page: $(VENV)/.ready $(PAGE)
	scripts/system.sh chromium
	$(PYTEST) -m editor tests/e2e/report

extension/ridgeline.vsix: $(VENV)/.ready $(EXTENSION) $(SERVER)
	command -v npm >/dev/null || scripts/system.sh nodejs npm
	cd extension && npm ci --no-audit --no-fund --loglevel=error && npm run package

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
	rm -rf $(VENV) .cache artifacts extension/node_modules extension/dist extension/bundled pyserver/ridgeline/report/assets
