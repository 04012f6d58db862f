# Two commands are all the set-up there is: `make demo` and `make test`.
# The first of these that is there; PYTHON=/path/to/python overrides.
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,$(if $(shell command -v $(p) 2>/dev/null),$(p))))
VENV := .venv
UNMOOR := $(VENV)/bin/unmoor

.PHONY: demo test lint clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

demo: $(VENV)/.installed
	$(UNMOOR) profile examples/gateway-log/requests.jsonl.gz
	$(UNMOOR) decide examples/agents/plan.toml --html reports/agents.html
	$(UNMOOR) engines install openvino --yes
	$(UNMOOR) engines fetch smollm2-135m-instruct --yes
	$(UNMOOR) bakeoff examples/local/plan.toml --html reports/local.html

# VLLM=1 also installs vLLM's CPU build (3.5 GB) and tests it; CI does, where the CPU build of torch it needs is to be had.
test: $(VENV)/.installed-test lint
	$(UNMOOR) engines install openvino --yes
	$(UNMOOR) engines install schema-compilers --yes
	$(UNMOOR) engines fetch smollm2-135m-instruct --yes $(if $(VLLM),--format all)
	$(if $(VLLM),$(UNMOOR) engines install vllm --yes || echo "going on without vLLM: its tests are skipped")
	$(VENV)/bin/python -m pytest

lint: $(VENV)/.installed-test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

clean:
	rm -rf $(VENV) runs reports
