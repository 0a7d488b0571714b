# Everything a developer runs. The tools' settings are in pyproject.toml; what they need is Python 3.11+, git and make.

BIN := .venv/bin
STEP := .ci/step

# What `make setup` installs. A later group adds its own .in and .txt beside these and joins here.
REQUIREMENTS := requirements/dev.txt requirements/docs.txt

# Tests of everything that runs for real: stores, orchestrators, workers. Spark has a lane of its own.
RUNTIME_TESTS := tests/bucket tests/conformance tests/crash tests/etcd tests/hostile tests/local tests/people tests/servers tests/worker

# Tests that need servers: all of these folders, and what is marked so in the folders above. Two lanes side by side.
SERVER_TESTS := test-marked $(patsubst tests/%,test-%,$(wildcard tests/conductor tests/lakefs tests/cluster))

# A universal resolution: one file for every platform and every supported Python. No index address is written.
COMPILE := .ci/uv --quiet pip compile --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock" $(LOCK_FLAGS)

.DEFAULT_GOAL := help
.PHONY: help setup obtain burn demo demo-servers lint test test-all test-core test-simulation test-runtime test-spark test-spark-versions test-spark-pythons test-spark-sample test-tables test-servers $(SERVER_TESTS) servers servers-stop test-pages test-full format bench specs lock clean hooks docs test-docs lint-ruff lint-format lint-mypy lint-pyright lint-imports lint-dead

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.stamp ## Make .venv and install the pinned tools and this project; does nothing if that is done

# Touched last, so that an interrupted set-up starts again.
.venv/.stamp: pyproject.toml requirements/uv.txt $(REQUIREMENTS)
	@PYTHON='$(PYTHON)' .ci/setup $(REQUIREMENTS)
	@touch $@

demo: setup ## Play a data pipeline on Spark in which a worker is killed and another comes back from the dead
	@$(BIN)/python -m examples.orders

lint: setup ## Check style, types and the direction of imports
	@$(MAKE) --no-print-directory --keep-going --jobs=4 lint-ruff lint-format lint-mypy lint-pyright lint-imports lint-dead

lint-ruff:
	@$(STEP) ruff $(BIN)/ruff check --quiet .
lint-format:
	@$(STEP) ruff-format $(BIN)/ruff format --check --diff --quiet .
lint-mypy:
	@$(STEP) mypy $(BIN)/mypy
lint-pyright:
	@$(STEP) basedpyright $(BIN)/basedpyright
lint-imports:
	@$(STEP) import-linter $(BIN)/lint-imports
lint-dead:
	@$(STEP) vulture $(BIN)/vulture --config tests/vulture.toml

# The longest first.
test: lint ## Lint, then run all tests: the core with branch coverage, beside it the simulator, the runtime and Spark
	@$(MAKE) --no-print-directory --keep-going --jobs=3 test-runtime test-spark test-core test-simulation

test-core: setup
	@PERAGO_ROW_COVERAGE=strict $(STEP) --live core $(BIN)/coverage run -m pytest tests/core tests/docs
	@$(STEP) coverage $(BIN)/coverage report
test-docs: setup
	@$(STEP) --live docs $(BIN)/pytest tests/docs
test-simulation: setup
	@$(STEP) --live simulation $(BIN)/pytest tests/specs tests/simulation
test-runtime: setup
	@$(STEP) etcd $(BIN)/python -m tests.support.servers obtain etcd
	@$(STEP) --live runtime $(BIN)/pytest -m "not servers" $(RUNTIME_TESTS)
test-spark: setup
	@$(STEP) --live spark $(BIN)/pytest tests/spark

# The Sparks beside the newest one, which test-spark runs on; each in an environment of its own.
SPARKS := 4.0 4.1 4.2
test-spark-versions: test-spark $(SPARKS:%=test-spark-%) ## Run the tests of data sets and the fault matrix on every Spark that is supported
$(SPARKS:%=test-spark-%): test-spark-%: setup
	@$(STEP) --live spark-$* $(BIN)/python -m tests.spark.versions $*

# The newest Spark on the other Pythons that it is promised for, with pandas 3 on one of them.
PYTHONS := 3.12 3.13
test-spark-pythons: $(PYTHONS:%=test-spark-python-%) ## Run the same on Python 3.12, and on 3.13 with pandas 3
$(PYTHONS:%=test-spark-python-%): test-spark-python-%: setup
	@$(STEP) --live spark-python-$* $(BIN)/python -m tests.spark.versions $*

# One of them, picked by the commit, and a sample of its tests, tables included: what there is time for before a change.
test-spark-sample: setup
	@$(STEP) --live spark-sample $(BIN)/python -m tests.spark.sample

# Delta and Iceberg have no release for the newest Spark; so two older ones are tried with them wherever servers are.
test-tables: setup
	@$(STEP) --live delta $(BIN)/python -m tests.spark.versions 4.2 tests/tables
	@$(STEP) --live iceberg $(BIN)/python -m tests.spark.versions 4.1 tests/tables

servers: setup ## Obtain lakeFS, Conductor, etcd and an S3 once, start them on this machine, and say how to use them
	@$(BIN)/python -m tests.support.servers start

demo-servers: setup ## Play the demo on a real lakeFS and a real Conductor (obtains them first)
	@$(STEP) --live servers $(BIN)/python -m tests.support.servers obtain lakefs conductor
	@$(BIN)/python -m tests.support.servers.demo

servers-stop: setup ## Stop what `make servers` started, and throw its data away
	@$(BIN)/python -m tests.support.servers stop

obtain: setup
	@$(STEP) --live servers $(BIN)/python -m tests.support.servers obtain

test-servers: obtain ## Run all tests on real servers: lakeFS, Conductor, a Spark cluster (obtains them first)
	@$(MAKE) --no-print-directory --keep-going --jobs=2 $(SERVER_TESTS)

# Each lane once: a test that passes the second time has a cause, and that is what is mended (specs/adr/0023).
SERVED = PERAGO_SERVERS_REQUIRED=1 $(STEP) --live $(1) $(BIN)/pytest $(if $(filter full,$(PERAGO_MATRIX)),-s) -o cache_dir=.pytest_cache/$(1) $(2)

test-marked: obtain
	@$(call SERVED,marked,-m servers $(RUNTIME_TESTS))
test-lakefs: obtain
	@$(call SERVED,lakefs,tests/lakefs)
test-conductor: obtain
	@$(call SERVED,conductor,tests/conductor)
test-cluster: obtain
	@$(call SERVED,cluster,tests/cluster)

# One pool: while a lane waits for a process to die or a lease to expire, another has the core. What lanes on servers need
# is obtained first, beside those that need none; then the longest.
LANES := obtain test-runtime test-spark test-simulation test-cluster test-core test-lakefs test-marked test-conductor \
	test-spark-sample test-pages
JOBS ?= 3
test-all: lint ## Run all that must pass before a change is accepted: every test but the whole matrices, JOBS lanes at a time
	@PERAGO_PAGES=required $(MAKE) --no-print-directory --keep-going --jobs=$(JOBS) $(LANES)

# embedded, bucket or servers; auto, disable or soft: make burn STACK=servers POLICY=disable MINUTES=20 SEED=7
# Several workflows on one branch: make burn STACK=servers MINUTES=20 SHARED=32
# FILES_ONLY=1: no task on Spark. SHRINK=1: make the loss of soft smaller as well, and a scenario of it.
STACK ?= embedded
POLICY ?= auto
MINUTES ?= 5
burn: setup ## Break a real STACK under a POLICY at random for MINUTES; count what was injected, survived and lost
	@$(BIN)/python -m tests.crash.burn --stack $(STACK) --policy $(POLICY) --minutes $(MINUTES) \
		$(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY)) $(if $(RECORD),--record) \
		$(if $(SHARED),--shared $(SHARED)) $(if $(SCOPES),--scopes $(SCOPES)) \
		$(if $(FILES_ONLY),--files-only) $(if $(SHRINK),--shrink)

test-pages: setup ## Run the tests of pages in a real browser (PERAGO_PAGES=required: its absence is a failure)
	@$(STEP) --live pages $(BIN)/pytest -m pages tests/pages

format: setup ## Rewrite the code in the house style
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

hooks: setup ## Install the git hooks: style at each commit, types at each push
	@$(BIN)/pre-commit install

bench: setup ## Run the benchmarks
	@PYTHONPATH=. $(BIN)/python tests/bench/run.py

# A warning is an error: a link or an anchor that leads nowhere, a document outside the navigation.
SITE := build/site
docs: setup ## Build README, guide and specs into a site in build/site; needs no network
	@$(STEP) docs $(BIN)/sphinx-build --quiet --nitpicky --fail-on-warning --keep-going --conf-dir specs/site \
		--doctree-dir build/doctrees . $(SITE)

specs: setup ## Regenerate the tables in specs/ from the code
	@$(BIN)/python specs/generate.py

test-full: setup ## Play and explore the whole matrices; figures go into specs/, those on servers are printed (hours)
	@$(STEP) --live servers $(BIN)/python -m tests.support.servers obtain
	@$(STEP) --live servers $(BIN)/python -m tests.support.servers obtain fake-gcs
	@$(STEP) --live matrices $(BIN)/python specs/generate.py --full
	@PERAGO_MATRIX=full $(STEP) --live proof $(BIN)/pytest tests/core/test_call_order.py tests/simulation/test_alone.py tests/simulation/test_detection.py
	@PERAGO_MATRIX=full $(STEP) --live storm $(BIN)/pytest -s tests/crash/test_storm.py
	@PERAGO_MATRIX=full $(STEP) --live streams $(BIN)/pytest -s tests/spark/test_streams.py -k thousand
	@PERAGO_MATRIX=full $(MAKE) --no-print-directory test-servers test-tables
	@$(MAKE) --no-print-directory --keep-going test-spark-versions test-spark-pythons

lock: ## Recompile requirements/*.txt from their *.in (LOCK_FLAGS=--upgrade for new versions)
	@.ci/setup
	@$(COMPILE) --output-file requirements/uv.txt requirements/uv.in
	@$(COMPILE) --output-file requirements/dev.txt pyproject.toml requirements/dev.in
	@$(COMPILE) --constraint requirements/dev.txt --output-file requirements/docs.txt requirements/docs.in
	@$(COMPILE) --constraint requirements/dev.txt --extra worker --extra lakefs --extra conductor --extra etcd --extra telemetry \
		--output-file requirements/image.txt pyproject.toml requirements/image.in
	@$(COMPILE) --output-file requirements/servers.txt requirements/servers.in
	@$(COMPILE) --output-file requirements/moto.txt requirements/moto.in
	@$(COMPILE) --output-file requirements/peer.txt requirements/peer.in
	@$(COMPILE) --output-file requirements/tables.txt requirements/tables.in
	@for spark in $(SPARKS); do \
		$(COMPILE) --output-file requirements/spark-$$spark.txt pyproject.toml requirements/spark.in requirements/spark-$$spark.in || exit; done
	@for newest in newest-spark newest-spark-pandas-3; do \
		$(COMPILE) --output-file requirements/$$newest.txt pyproject.toml requirements/spark.in requirements/$$newest.in || exit; done

clean: ## Remove the environment, caches and whatever was built
	@rm -rf .venv build dist .coverage .coverage.* htmlcov .hypothesis
	@rm -rf .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
