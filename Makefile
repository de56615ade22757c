# Two commands do all the set-up: `make run` and `make test`. Needs Python 3.11 or newer and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= out
TYPES := f16 bf16 tf32 s8 e4m3
TCGEN05 := f16_tcgen05 f16_tcgen05_m64 f16_tcgen05_m64_lane16 f16_tcgen05_m64_both s8_tcgen05 e4m3_tcgen05 mxf4nvf4_tcgen05 f16_tcgen05_pair
PYTEST_FLAGS ?= -n auto

.PHONY: help run digits test lint types check validate bench wheel clean

help:
	@echo "make run       set up, then run the main job: a sparse layer of a real network on a simulated H100"
	@echo "make digits    the same layer in all five types, on the H100 and (where it can) the A100; with tcgen05.mma.sp on the B200"
	@echo "make test      set up, then run the tests (under 3 minutes)"
	@echo "make check     lint, types and every test, the long ones too: what CI runs"
	@echo "make validate  the timing model against measured streams"
	@echo "make bench     speed, as ratios against other ways to do the same"

INSTALLED := pyproject.toml hatch_build.py $(wildcard simulator/arithmetic/compiled/*.[ch])

$(VENV)/run.stamp: $(INSTALLED)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/test.stamp: $(INSTALLED)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@ $(VENV)/run.stamp

run: $(VENV)/run.stamp
	@mkdir -p $(OUT)
	$(BIN)/tcsim run digits/f16 --config h100_sxm --output $(OUT)/digits_f16.npz
	$(BIN)/python traces/digits/classify.py $(OUT)/digits_f16.npz

digits: $(VENV)/run.stamp
	@mkdir -p $(OUT)
	@for type in $(TYPES); do \
	    $(BIN)/tcsim run digits/$$type --output $(OUT)/digits_$$type.npz && $(BIN)/python traces/digits/classify.py $(OUT)/digits_$$type.npz || exit 1; \
	done
	@for type in f16 bf16 tf32 s8; do $(BIN)/tcsim run digits/$$type --config a100 || exit 1; done
	@for name in $(TCGEN05); do \
	    $(BIN)/tcsim run digits/$$name --config b200 --output $(OUT)/digits_$$name.npz && $(BIN)/python traces/digits/classify.py $(OUT)/digits_$$name.npz || exit 1; \
	done

test: $(VENV)/test.stamp
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check isa simulator traces

types: $(VENV)/test.stamp
	$(BIN)/mypy

check: lint types
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -m "not hardware"

validate: $(VENV)/run.stamp
	$(BIN)/tcsim validate

bench: $(VENV)/test.stamp
	$(BIN)/python -m tests.benchmarks

wheel: $(VENV)/test.stamp
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) $(OUT) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
