# The commands of a day. Every target makes the environment first; that takes no time when nothing has changed.
PYTHON ?= python3
export PYTHON
BIN := .venv/bin
.PHONY: setup demo browser rabbitmq faketime test screenshots tasks sweep crash soak lint up down status bench docs clean
.DEFAULT_GOAL := demo

setup:
	@infra/setup.sh

demo: setup
	@$(BIN)/anabranch demo

# Only tests that click need one.
browser:
	@infra/chromium.sh

# Only tests of queues need it.
rabbitmq:
	@infra/rabbitmq.sh

# Only the sweep's tests of clocks need it.
faketime:
	@infra/faketime.sh

test: setup lint browser rabbitmq
	@$(BIN)/python tests/lanes.py

# The pictures of the docs, made anew by the test that clicks through them; in build/pages all pages, light, dark and narrow.
screenshots: setup browser
	@$(BIN)/pytest tests/system/test_clicks.py --pictures docs/images
	@$(BIN)/pytest tests/system/test_looks.py --pictures build/pages

# The ten tasks of a day, clicked through on a platform of their own; writes their table into docs/tasks.md.
tasks: setup browser
	@$(BIN)/pytest tests/system/test_tasks.py -m sweep --tasks docs/tasks.md

# Some hours; docs/sweep-report keeps what was run. TESTS="tests/faults/test_bank.py" runs a part, MORE=1 what hasn't passed
# yet; a test that is skipped makes it fail.
sweep: setup browser rabbitmq faketime
	@$(BIN)/pytest -m sweep -n 2 --dist loadfile --sweep-report=docs/sweep-report.md $(if $(MORE),--sweep-more) $(TESTS)

# Kills at every commit point, for hours; SAMPLE=40 takes so many of them, MINUTES=60 so long, SEED the same ones again,
# and MORE=1 goes on with what docs/crash-report has.
crash: setup
	@cd tests && PYTHONUNBUFFERED=1 ../$(BIN)/python -m crash --report ../docs/crash-report.md \
		$(if $(SAMPLE),--sample $(SAMPLE)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(if $(MORE),--more)

# Half an hour of steady load, random kills and work that goes on; MINUTES, RATE (events a second) and SEED can be set.
soak: setup
	@cd tests && PYTHONUNBUFFERED=1 ../$(BIN)/python -m soak --report ../docs/soak-report.md \
		$(if $(MINUTES),--minutes $(MINUTES)) $(if $(RATE),--rate $(RATE)) $(if $(SEED),--seed $(SEED))

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

up: setup
	@$(BIN)/anabranch up

down: setup
	@$(BIN)/anabranch down

status: setup
	@$(BIN)/anabranch status

# Each benchmark beside its rival; writes its figures into RESULTS.md, README and docs. CASES="batch speed" runs these.
bench: setup
	@$(BIN)/python -m benchmarks $(CASES)

# The site from our pages and docstrings, in build/docs; reaches no network. A link to nothing fails it.
docs: setup
	@$(BIN)/python infra/docs/build.py
	@echo "build/docs/index.html"

# Stops the platform first: deleting the files of a running broker would leave it running, and unknown.
clean:
	@if [ -x $(BIN)/anabranch ]; then $(BIN)/anabranch down; fi
	@rm -rf .anabranch .jars .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build platform/samples/build
