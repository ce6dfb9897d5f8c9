# Every target sets up what it needs in .venv, from the versions in constraints/, on a machine that has Python 3.11 or newer
# and make. No Java is needed: sundog brings one if there is none. A second run starts at once.
#
# .venv has the newest Spark that sundog knows, and .venvs/<version> each older one, for `test`, `test-sparks` and `test-matrix`.

PYTHON ?= python3
ARGS ?=
SECONDS ?= 300
SEED ?= 1
RECORD ?=
BIN := .venv/bin
SPARK := 4.3
OTHER_SPARKS := 3.5 4.0 4.1 4.2
EXTRAS := spark,test,connect
EXTRAS_3.5 := spark,test
INSTALL := -m pip install --quiet --disable-pip-version-check
PIP := $(BIN)/python $(INSTALL) --constraint constraints/$(SPARK).txt
# The JVM's quick compiler alone: sessions of minutes over small tables then take a third less of the processor.
QUICK_JVM := SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
TWO_PROCESSES := --numprocesses 2 --dist loadfile --no-loadscope-reorder
# Tests start many Python processes. Where this variable is set, each of them compiles every module of sundog anew.
unexport PYTHONDONTWRITEBYTECODE
UNIT := not spark and not slow and not long and not matrix and not browser

.DEFAULT_GOAL := help
.PHONY: help demo test test-sparks test-matrix check fuzz fuzz-relations fuzz-files bench docs clean
.DELETE_ON_ERROR:

help: ## help     this list
	@echo "sundog: top-k, global windows and million-group aggregation, fast, on the Spark you already have"
	@echo
	@sed -n 's/^[a-z-]*:.*## /  make /p' Makefile
	@echo
	@echo "  Options: PYTHON=python3.12 to choose the Python, ARGS='...' for demo, test and bench."

demo: .venv/run.stamp ## demo     see it: three queries on plain Spark and on sundog, answers compared (a few minutes)
	$(BIN)/sundog demo $(ARGS)

# The smoke test is for the older Sparks: on the newest one the other tests run what it runs, and more.
test: .venv/dev.stamp $(if $(ARGS),,$(OTHER_SPARKS:%=.venvs/%/stamp)) ## test     run the tests, with a real Spark, in two processes; then test-sparks, unless ARGS chooses tests
	$(QUICK_JVM) $(BIN)/python -m pytest $(TWO_PROCESSES) -m "not matrix" $(or $(ARGS),--ignore-glob 'tests/versions/test_smoke*.py')
	$(if $(ARGS),,@$(MAKE) --no-print-directory test-sparks)

# The newest Spark is among them only to be recorded.
test-sparks: $(OTHER_SPARKS:%=.venvs/%/stamp) ## test-sparks  run every shape, type, action and placement on the older Sparks, two at a time (six minutes)
	@$(MAKE) --no-print-directory --keep-going --jobs 2 $(OTHER_SPARKS:%=test-spark-%) $(if $(RECORD),test-spark-$(SPARK))

$(OTHER_SPARKS:%=test-spark-%): test-spark-%: .venvs/%/stamp
test-spark-$(SPARK): .venv/dev.stamp
# The output of one is kept until it has ended, and is shown if it failed.
$(patsubst %,test-spark-%,$(OTHER_SPARKS) $(SPARK)): test-spark-%:
	@mkdir -p build
	@python=$(if $(filter $(SPARK),$*),$(BIN),.venvs/$*/bin)/python; \
	if $(QUICK_JVM) \
	  $$python -m pytest tests/versions -m "not matrix" --junitxml build/test-spark-$*.xml $(ARGS) > build/test-spark-$*.txt 2>&1 \
	  $(if $(RECORD),&& $$python -m tests.versions.record build/test-spark-$*.xml >> build/test-spark-$*.txt 2>&1); \
	then echo "Spark $*: $$(tail -n 1 build/test-spark-$*.txt)"; \
	else cat build/test-spark-$*.txt; echo "Spark $*: tests/versions failed" >&2; exit 1; fi

test-matrix: .venv/dev.stamp $(OTHER_SPARKS:%=.venvs/%/stamp) ## test-matrix  run all tests, also those that `test` leaves out, on every Spark that sundog knows (hours; before a release)
	@mkdir -p build; failed=; for spark in $(OTHER_SPARKS) $(SPARK); do \
	  python=.venvs/$$spark/bin/python; report=build/test-matrix-$$spark.xml; marks="not browser"; \
	  if [ $$spark = $(SPARK) ]; then python=$(BIN)/python; marks=; fi; \
	  echo "== Spark $$spark"; \
	  $(QUICK_JVM) $$python -m pytest $(TWO_PROCESSES) -m "$$marks" --junitxml $$report $(ARGS) \
	  $(if $(RECORD),&& $$python -m tests.versions.record $$report) || failed="$$failed $$spark"; \
	done; \
	test -z "$$failed" || { echo "Tests failed on Spark$$failed" >&2; exit 1; }

check: .venv/dev.stamp ## check    format, lint, types, import layers and the tests that need no Spark (four minutes)
	$(BIN)/ruff format --check src tests
	$(BIN)/ruff check src tests
	$(BIN)/mypy
	$(BIN)/python -m tests.test_commits
	$(BIN)/python -m pytest $(TWO_PROCESSES) -m "$(UNIT)" $(ARGS)

fuzz: .venv/dev.stamp ## fuzz     random data, files, settings and queries against plain Spark; SECONDS=3600 SEED=1
	$(BIN)/python -m tests.fuzz.run --seconds $(SECONDS) --seed $(SEED) $(ARGS)

fuzz-relations: .venv/dev.stamp ## fuzz-relations  random queries of several tables: joins, subqueries, set operations; SECONDS=3600 SEED=1
	$(BIN)/python -m tests.fuzz.relational.run --seconds $(SECONDS) --seed $(SEED) $(ARGS)

fuzz-files: .venv/fuzz.stamp ## fuzz-files  damaged Parquet files, SECONDS by their structure and as many by coverage (atheris)
	$(BIN)/python -m tests.fuzz.files $(SECONDS)
	$(BIN)/python -m tests.fuzz.files.corpus unpack build/fuzz-files/corpus
	$(BIN)/python -m tests.fuzz.files.coverage -max_total_time=$(SECONDS) -max_len=4096 -rss_limit_mb=4096 \
	  -artifact_prefix=build/fuzz-files/ build/fuzz-files/corpus

bench: .venv/bench.stamp ## bench    compare with Spark, DuckDB, DataFusion, Polars and Sail; ARGS='--help' for its options
	$(BIN)/sundog bench $(ARGS)

docs: .venv/run.stamp ## docs     write the generated pages of docs/reference
	$(BIN)/sundog docs

clean: ## clean    remove .venv, .venvs and everything that was generated
	rm -rf .venv .venvs build dist spark-warehouse metastore_db derby.log report.html .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info

# --- set-up: one stamp per set of packages, renewed when the versions change ------------------------------------------

.venv/bin/python:
	@for python in "$(PYTHON)" python3.13 python3.12 python3.11 python3.14; do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "Making .venv with $$("$$python" --version) ($$(command -v "$$python"))"; \
	    "$$python" -m venv --clear .venv && exit 0; \
	    echo "That Python cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv" >&2; \
	    rm -rf .venv; exit 1; \
	  fi; \
	done; \
	echo "sundog needs Python 3.11 or newer, and '$(PYTHON)' is not. Name one: make PYTHON=/path/to/python3.12" >&2; \
	exit 1

.venv/run.stamp: constraints/$(SPARK).txt constraints/common.txt pyproject.toml | .venv/bin/python
	@echo "Installing sundog and what it runs on into .venv (once; a few minutes)"
	@$(PIP) setuptools
	@$(PIP) --no-build-isolation --editable '.[spark]'
	@touch $@

.venv/dev.stamp: .venv/run.stamp
	@echo "Installing the tools of development into .venv (once)"
	@$(PIP) --no-build-isolation --editable '.[spark,dev]'
	@touch $@

.venv/fuzz.stamp: .venv/dev.stamp
	@echo "Installing the coverage-guided fuzzer into .venv (once)"
	@$(PIP) --no-build-isolation --editable '.[fuzz]'
	@touch $@

.venv/bench.stamp: .venv/run.stamp
	@echo "Installing the engines to compare with into .venv (once)"
	@$(PIP) --no-build-isolation --editable '.[spark,bench]'
	@touch $@

.venvs/%/stamp: constraints/%.txt constraints/common.txt pyproject.toml | .venv/bin/python
	@echo "Installing Spark $* and what the tests need into .venvs/$* (once; a few minutes)"
	@$(BIN)/python -m venv --clear .venvs/$*
	@.venvs/$*/bin/python $(INSTALL) --constraint constraints/$*.txt setuptools
	@.venvs/$*/bin/python $(INSTALL) --constraint constraints/$*.txt --no-build-isolation --editable '.[$(or $(EXTRAS_$*),$(EXTRAS))]'
	@touch $@
