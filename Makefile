# Two commands matter: `make demo` and `make test`. `make help` lists the rest.

# PYTHON chooses the interpreter that makes the virtual environment: the first of these that runs, unless it is named.
# Tested with 3.11, 3.12 and 3.13.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done || echo python3)
VENV := .venv
BIN := $(VENV)/bin
# Modules are compiled when they are first imported: of plotly's thousands that is a few.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# Two more than there are cores, up to eight: many tests wait for processes of their own.
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
PYTEST_WORKERS ?= $(shell [ $(CORES) -lt 6 ] && expr $(CORES) + 2 || echo 8)
VAR := $(or $(SHADOWPRICE_VAR),var)
# Files of tests that compare processes with the clock: to collect all others takes each process of pytest 8 seconds.
CLOCKED = $(shell grep -rl pytest.mark.clocked tests --include='test_*.py')
# Without bytecode each process compiles all sources anew, two seconds of a core: a run of the tests starts hundreds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo demo-reset serve test check quick pytest lint style contracts types bandit security sbom kernels bytecode system up down smoke up-slurm testbed bench mutants soak soak-demo load fuzz histories storm lock
.DEFAULT_GOAL := help

help:
	@echo "make demo        ten markets with streams of bids, at http://127.0.0.1:8000"
	@echo "                 PORT=8001  SEED=7  ONCE=1 (a fixed number of bids, a table, exit)  TRACE=file.csv (Philly)"
	@echo "make demo-reset  forget the demo's data"
	@echo "make serve       the server and its worker, without the feeder"
	@echo "make test        everything: linters, contracts, types and every test"
	@echo "make check       the short loop, a minute"
	@echo "make up          the processes of docker-compose.yml without containers, in var/up; PORT=8001"
	@echo "make smoke       submit a bid to them, and wait for its decision"
	@echo "make down        end them, and keep their data"
	@echo "make up-slurm    as root: a Slurm of three servers on this machine, to try the engine slurm"
	@echo "make testbed     20 minutes, best as root: real jobs under the papers' policies; SEED=2  SMALL=1 (a minute)"
	@echo "make bench       speed of a decision"
	@echo "make soak        before a release: random tests alone, thirty times as much of each, with a new seed; SEED=7"
	@echo "make soak-demo   the demo with three viewers for eight minutes: no answer may be the server's failure; MINUTES=2"
	@echo "make load        bids at 100 a second and as fast as they are answered, on both installations; SECONDS=300"
	@echo "make fuzz        requests that follow from the OpenAPI document, as each role; EXAMPLES=100 of each operation"
	@echo "make histories   10,000 simulated histories of markets with faults, each followed by its invariants; SEEDS=1-500"
	@echo "make storm       best as root: faults in an installation of make up for ten minutes, while bids are sent; MINUTES=2"
	@echo "make mutants     change the code in 297 places, one at a time, and count how many the tests notice (an hour)"
	@echo "make security    bandit, and known vulnerabilities of the pinned packages where a database can be reached"
	@echo "make sbom        a software bill of materials, var/sbom.json"
	@echo "make lock        pin the requirements files again from pyproject.toml"

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is needed: apt-get install python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ". Choose one with make PYTHON=...") if sys.version_info < (3, 11) else None'
	@echo "Making the virtual environment $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { echo "python3-venv is needed: apt-get install python3-venv"; rm -rf $(VENV); exit 1; }

# Stamp files: a second run installs nothing.
$(VENV)/.run: requirements.txt | $(VENV)/bin/python
	@echo "Installing requirements.txt"
	@$(PIP) -r requirements.txt
	@touch $@

# What requirements-dev.txt has beyond requirements.txt, for `make --jobs` at the same time: the two share no package.
$(VENV)/.tools: requirements-dev.txt requirements.txt | $(VENV)/bin/python
	@echo "Installing requirements-dev.txt"
	@grep -vxF -f requirements.txt requirements-dev.txt > $@.txt
	@$(PIP) --no-deps -r $@.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.run $(VENV)/.tools
	@touch $@

demo: $(VENV)/.run
	@exec $(BIN)/python manage.py demo $(if $(filter 1,$(ONCE)),--once) $(if $(TRACE),--trace "$(TRACE)") \
		$(if $(PORT),--port $(PORT)) $(if $(SEED),--seed $(SEED))

demo-reset: $(VENV)/.run
	@$(BIN)/python manage.py demo --reset

serve: $(VENV)/.run
	@$(BIN)/python manage.py migrate --verbosity 0
	@exec $(BIN)/python manage.py serve $(if $(PORT),--port $(PORT))

# Apart, so that `make --jobs` runs them side by side.
lint: style contracts types bandit

style: $(VENV)/.tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

contracts: $(VENV)/.dev
	$(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/mypy .

# Medium severity and more: ruff has the same rules and all severities. Without the core, which takes most of the time
# and uses no file, network or process, as an import contract says.
bandit: $(VENV)/.dev
	@$(BIN)/bandit --quiet --configfile pyproject.toml --severity-level medium --recursive accounts auctions cluster config demo deploy execution frontend \
		studies web --exclude '*/migrations/*'

security: bandit
	@$(BIN)/python .ci/vulnerabilities.py requirements.txt

sbom: $(VENV)/.dev
	@mkdir -p "$(VAR)" && $(BIN)/cyclonedx-py requirements requirements.txt --pyproject pyproject.toml \
		--output-reproducible --of JSON -o "$(VAR)/sbom.json" && echo "$(VAR)/sbom.json"

# Compiled before any test, else each of its processes would compile, and at the same time.
kernels: $(VENV)/.run
	@$(BIN)/python -m tests.kernels

# The bytecode of the tests, made once: in a fresh clone each process of pytest would make it, five seconds of a core.
# A module that cannot be imported is reported by the tests themselves.
bytecode: $(VENV)/.dev
	@$(BIN)/python -m pytest --collect-only --quiet > /dev/null || true

system:
	@.ci/system

# Side by side, each one's output whole.
check:
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint quick
	@echo "not looked up: known vulnerabilities of the packages, which needs a network (make security)"

quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow and not clocked and not thorough and not soak and not browser and not services and not collection"

# Types are checked while the first tests wait for processes of their own.
test:
	@$(MAKE) --no-print-directory --jobs 4 system style contracts kernels bytecode
	@$(MAKE) --no-print-directory --jobs 2 types pytest

pytest: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder -m "not clocked"
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m clocked $(CLOCKED)

up: $(VENV)/.run
	@$(BIN)/python deploy/native.py up $(if $(PORT),--port $(PORT))

down: $(VENV)/.run
	@$(BIN)/python deploy/native.py down

smoke: $(VENV)/.run
	@$(BIN)/python deploy/native.py smoke

up-slurm: $(VENV)/.run
	@exec $(BIN)/python -m execution.engines.small_slurm $(VAR)/slurm

testbed: $(VENV)/.run
	@SHADOWPRICE_VAR="$$(realpath -m "$(VAR)/testbed")" exec $(BIN)/python manage.py testbed $(if $(SEED),--seed $(SEED)) \
		$(if $(SMALL),--small) $(if $(RECORD),--record)

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

soak: $(VENV)/.dev kernels
	SHADOWPRICE_SOAK=1 SHADOWPRICE_TURN=all $(if $(SEED),SHADOWPRICE_SEED=$(SEED)) \
		$(BIN)/python -m pytest -n $(CORES) --dist worksteal -m soak

soak-demo: $(VENV)/.dev
	$(BIN)/python -m tests.soak_demo $(if $(MINUTES),--minutes $(MINUTES))

# SECONDS is a variable of some shells, so the environment's is not taken.
load: $(VENV)/.dev kernels
	$(BIN)/python -m tests.load $(if $(filter command line,$(origin SECONDS)),--seconds $(SECONDS)) $(if $(ONLY),--only "$(ONLY)")

fuzz: $(VENV)/.dev kernels
	$(BIN)/python -m tests.fuzz $(if $(EXAMPLES),--examples $(EXAMPLES)) $(if $(SEED),--seed $(SEED))

histories: $(VENV)/.dev kernels
	$(BIN)/python -m tests.histories --seeds $(or $(SEEDS),1-10000) --jobs $(CORES)

storm: $(VENV)/.dev kernels
	$(BIN)/python -m tests.storm $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutants $(if $(SEED),--seed $(SEED))

# Kept out of .venv: the tool that pins is no dependency of the project.
lock: $(VENV)/bin/python
	@$(PYTHON) -m venv "$(VAR)/lock" && "$(VAR)/lock/bin/python" -m pip install --quiet --disable-pip-version-check uv
	@"$(VAR)/lock/bin/uv" pip compile --quiet --python-version 3.11 --no-emit-index-url --no-header --no-annotate \
		pyproject.toml -o requirements.txt
	@"$(VAR)/lock/bin/uv" pip compile --quiet --python-version 3.11 --no-emit-index-url --no-header --no-annotate \
		--extra traces -c requirements.txt pyproject.toml -o requirements-traces.txt
	@"$(VAR)/lock/bin/uv" pip compile --quiet --python-version 3.11 --no-emit-index-url --no-header --no-annotate \
		--extra dev --extra traces -c requirements.txt pyproject.toml -o requirements-dev.txt
