# `make train` and `make test` are all that a fresh machine needs: each sets up $(VENV) from the lock file first.
#
#   PYTHON=/path/to/python3.9   the Python to use; without it .ci/find-python looks for one
#   WORKDIR=DIR                 where `make train` keeps its run
#   WORKERS=N                   how many processes share the tests
#   ARGS='...'                  more arguments for the command: make test ARGS='-m "not slow"'

PYTHON ?=
VENV := .venv
WORKDIR := runs/mlp_digits
WORKERS := 3
ARGS :=

BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help train test lint format bench lock clean

help:  ## list the commands
	@sed -n 's/^\([a-z]*\):.*##  *\(.*\)/make \1	\2/p' Makefile | expand -t 16

train: $(READY)  ## train the digits MLP; again: resume, or say that it is finished
	$(BIN)/tpuloop train --config=configs/mlp_digits.py --workdir=$(WORKDIR) $(ARGS)

test: $(READY)  ## run all tests
	$(BIN)/pytest -q -n $(WORKERS) --dist loadfile $(ARGS)

lint: $(READY)  ## check style and types; changes nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## put the code into the style that lint checks
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## time the loop against hand-written ones and model.fit
	$(BIN)/python -m tpuloop bench loop $(ARGS)

lock:  ## bring requirements.lock in line with pyproject.toml (needs uv); ARGS=--upgrade takes newer versions
	uv pip compile --universal --python-version 3.8 --generate-hashes --no-emit-index-url --no-emit-find-links \
	    --no-annotate --no-header --all-extras $(ARGS) -o requirements.lock pyproject.toml >/dev/null

clean:  ## remove the environment, caches and build output; runs/ stays
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	find tpuloop models configs tests -name __pycache__ -prune -exec rm -rf {} +

# The environment. $(READY) is written last and holds this folder's path. So an environment that was interrupted, moved
# or copied here from elsewhere is made anew, as is one whose Python is gone or not the one asked for; where only
# the lock or pyproject.toml changed, the difference is installed.
minor = $(filter 3.8 3.9 3.10,$(shell '$(1)' -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null))
usable := $(filter $(if $(PYTHON),$(call minor,$(PYTHON)),3.%),$(call minor,$(BIN)/python))
ifneq "$(shell cat $(READY) 2>/dev/null)" "$(CURDIR)"
usable :=
endif
ifeq "$(usable)" ""
.PHONY: $(READY)
endif

PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# setuptools goes first, so that what comes as source only (ml-collections for Python 3.8 and 3.9) is built by a hashed
# one as well, and not by one that pip would fetch for the occasion.
$(READY): requirements.lock pyproject.toml
ifeq "$(usable)" ""
	@python=$$(PYTHON='$(PYTHON)' .ci/find-python) && echo "Making $(VENV) with $$python" && "$$python" -m venv --clear $(VENV)
endif
	@rm -f $@
	@echo "Installing the packages of requirements.lock (up to 600 MB to download)"
	@sed -n '/^setuptools==/,/[^\]$$/p' requirements.lock | $(PIP) install --require-hashes -r /dev/stdin
	@$(PIP) install --require-hashes --no-build-isolation --use-pep517 -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@echo '$(CURDIR)' > $@
