# The commands of a day. Every target makes the environment first; that takes no time when nothing has changed.
PYTHON ?= python3
export PYTHON
BIN := .venv/bin
# Where tests with real servers are: reading all the others, to leave them out, takes up to a minute.
SYSTEM := tests/crash tests/faults tests/system
OWN := system and not sweep and not shared

.PHONY: setup demo browser test screenshots sweep crash soak lint up down status bench clean
.DEFAULT_GOAL := demo

setup:
	@infra/setup.sh

demo: setup
	@$(BIN)/anabranch demo

# Only tests that click need one.
browser:
	@infra/chromium.sh

# Three workers keep two cores busy (2 % idle; two workers: 23 min instead of 18). Then the tests that run real servers
# and kill them, in two lanes of about the same length: tests of the one platform that they share, then faults; and all
# others, which have servers of their own.
test: setup lint browser
	@rm -rf build/tests
	@$(BIN)/pytest -m "not system and not sweep" -n 3 --dist loadfile --junitxml build/tests/fast.xml
	@TESTS_BESIDE=1 $(BIN)/pytest -m "$(OWN)" --junitxml build/tests/servers.xml $(filter-out tests/faults,$(SYSTEM)) & \
		servers=$$!; $(BIN)/pytest -m "system and not sweep and shared" --junitxml build/tests/shared.xml $(SYSTEM); \
		shared=$$?; $(BIN)/pytest -m "$(OWN)" --junitxml build/tests/faults.xml tests/faults; \
		faults=$$?; wait $$servers && exit $$((shared + faults))
	@$(BIN)/python tests/slowest.py build/tests/*.xml

# The pictures of the docs, made anew by the test that clicks through them; in build/pages all pages, light, dark and narrow.
screenshots: setup browser
	@$(BIN)/pytest tests/system/test_clicks.py --pictures docs/images
	@$(BIN)/pytest tests/system/test_looks.py --pictures build/pages

sweep: setup
	@$(BIN)/pytest -m sweep -n 2 --dist loadfile

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

# Stops the platform first: deleting the files of a running broker would leave it running, and unknown.
clean:
	@if [ -x $(BIN)/anabranch ]; then $(BIN)/anabranch down; fi
	@rm -rf .anabranch .jars .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build
