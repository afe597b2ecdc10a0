# `make demo` and `make test` need nothing but Python and make: they create .venv and install into it.
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
bin := $(VENV)/bin
install := $(bin)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable

.PHONY: demo test slow lint types format clean

demo: $(VENV)/installed-examples  ## Train on BitFlipping with and without HER; pictures in runs/quickstart.
	$(bin)/python -m examples.quickstart $(ARGS)

test: $(VENV)/installed-test  ## The default tests: a few minutes.
	$(bin)/python -m pytest $(ARGS)

slow: $(VENV)/installed-test  ## The tests marked slow.
	$(bin)/python -m pytest -m slow $(ARGS)

lint: $(VENV)/installed-test
	$(bin)/ruff format --check .
	$(bin)/ruff check .

types: $(VENV)/installed-test
	$(bin)/mypy

format: $(VENV)/installed-test
	$(bin)/ruff format .
	$(bin)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/installed-%: pyproject.toml constraints.txt | $(bin)/python
	@echo "installing her-toolkit[$*] into $(VENV) (a minute or two)"
	$(install) ".[$*]"
	@touch $@

$(bin)/python:
	$(PYTHON) -m venv $(VENV)
