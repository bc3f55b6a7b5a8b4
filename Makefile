# Two commands for a newcomer: `make demo` and `make test`. Each installs what it needs into .venv.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed

.PHONY: demo test test-all test-sglang test-vllm lint fuzz clean

demo: $(STAMP)
	$(VENV)/bin/shapescope demo -o shapescope-runs

test: $(STAMP) lint
	$(RUN) -m pytest -n 2 -m "not browser and not cluster and not torchrun and not engines"

test-all: test
	$(RUN) -m pytest -m "browser or cluster or torchrun"

# SGLang's real capture code on a CPU, with its own traces and with ours: prints which of its nine defects show.
test-sglang: .venv-sglang/.installed
	.venv-sglang/bin/python -W ignore tests/engines/sglang/defects.py
	.venv-sglang/bin/python -W ignore -m pytest tests/engines/sglang -m engines

.venv-sglang/.installed: tests/engines/sglang/requirements.txt tests/engines/sglang/install.sh pyproject.toml
	tests/engines/sglang/install.sh
	touch $@

test-vllm:
	tests/engines/vllm/install.sh
	.venv-vllm/bin/python -m pytest tests/engines/vllm -m engines

fuzz:
	tests/fuzz/run.sh

lint: $(STAMP)
	$(RUN) -m ruff check src tests benchmarks
	$(RUN) -m ruff format --check src tests benchmarks
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports

$(STAMP): pyproject.toml
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --upgrade "pip>=25.1" setuptools wheel
	$(RUN) -m pip install --quiet torch==2.13.0
	$(RUN) -m pip install --quiet --editable ".[record,view,perfetto,xlsx]" --group dev
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
