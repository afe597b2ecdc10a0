# `make demo` and `make test` need nothing but Python and make: they create .venv and install into it.
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
bin := $(VENV)/bin
install := $(bin)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable

# A comment behind two signs is what `make help` says of a target.
.PHONY: help demo test slow coverage mutants lowest real-envs bench-replay bench-priorities reliability scoreboard peer-facts docs docs-serve lint types format clean

demo: $(VENV)/installed-agents,render  ## Train on BitFlipping with and without HER; pictures in runs/quickstart.
	$(bin)/python -m examples.quickstart $(ARGS)

test: $(VENV)/installed-test  ## The default tests: a few minutes.
	$(bin)/python -m pytest --numprocesses auto $(ARGS)

slow: $(VENV)/installed-test  ## The tests marked slow.
	$(bin)/python -m pytest --numprocesses auto -m slow $(ARGS)

coverage: $(VENV)/installed-test  ## Which lines the default tests run; fails below 95 %.
	$(bin)/python -m pytest --numprocesses auto --cov --cov-report=term $(ARGS)

mutants: $(VENV)/installed-test  ## Which small changes of the code the default tests do not notice: a sample, some ten minutes or more.
	$(bin)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt cosmic-ray
	$(bin)/python .ci/mutants.py $(ARGS)

lowest: $(VENV)-lowest/installed  ## The default tests with the oldest versions of all that is supported.
	$(VENV)-lowest/bin/python -m pytest --numprocesses auto $(ARGS)

real-envs: $(VENV)-real/installed  ## The checker on other people's environments, in an environment of its own.
	$(VENV)-real/bin/python -m pytest -m real_envs tests/real_envs $(ARGS)

bench-replay: $(VENV)-peers/installed  ## The replay buffer against other libraries', in an environment of its own.
	$(VENV)-peers/bin/python -m benchmarks.replay $(ARGS)

bench-priorities: $(VENV)-peers/installed  ## The same with priorities, against cpprb's.
	$(VENV)-peers/bin/python -m benchmarks.replay_priorities $(ARGS)

reliability: $(VENV)/installed-test  ## Random trials of interruptions, kills and damaged files, about an hour; the default tests have a hundredth.
	$(bin)/python -m benchmarks.reliability $(ARGS)

scoreboard: $(VENV)-peers/installed  ## The conformance suite on our buffer and on other libraries'; writes docs/scoreboard.md.
	$(VENV)-peers/bin/python -W ignore -m benchmarks.scoreboard $(ARGS)

peer-facts: $(VENV)-peers/installed  ## What the pages say of other libraries' buffers, and the example for one.
	$(VENV)-peers/bin/python -m pytest tests/peers tests/examples/test_relabel_for_cpprb.py $(ARGS)

docs: $(VENV)/installed-docs  ## The documentation as a site of static pages, in site/; fails at any warning.
	NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build --strict $(ARGS)

docs-serve: $(VENV)/installed-docs  ## The same at http://127.0.0.1:8000, built again whenever a page changes.
	NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs serve $(ARGS)

lint: $(VENV)/installed-test  ## Formatting and lint, changing nothing.
	$(bin)/ruff format --check .
	$(bin)/ruff check .

types: $(VENV)/installed-test  ## mypy --strict.
	$(bin)/mypy

format: $(VENV)/installed-test  ## Let ruff mend what it can.
	$(bin)/ruff format .
	$(bin)/ruff check --fix .

clean:  ## Remove all that was made and installed, but not runs/.
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-real $(VENV)-peers build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage

help:  ## This list.
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

$(VENV)/installed-%: pyproject.toml constraints.txt | $(bin)/python
	@echo "installing her-toolkit[$*] into $(VENV) (a minute or two)"
	$(install) ".[$*]"
	@touch $@

$(VENV)-lowest/installed: pyproject.toml constraints-lowest.txt
	@echo "installing the oldest versions into $(VENV)-lowest (a minute or two)"
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --disable-pip-version-check --quiet --constraint constraints-lowest.txt \
		--editable ".[agents,render,sb3]" sb3-contrib pytest pytest-xdist hypothesis scipy
	@touch $@

$(VENV)-real/installed: pyproject.toml constraints.txt tests/real_envs/requirements.txt
	@echo "installing simulators into $(VENV)-real (some minutes)"
	$(PYTHON) -m venv $(VENV)-real
	$(VENV)-real/bin/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt \
		--requirement tests/real_envs/requirements.txt pytest hypothesis --editable ".[torch]"
	$(VENV)-real/bin/python -m pip uninstall --quiet --yes pygame  # beside pygame-ce it breaks both
	$(VENV)-real/bin/python -m pip install --disable-pip-version-check --quiet --force-reinstall --no-deps pygame-ce
	@touch $@

$(VENV)-peers/installed: pyproject.toml benchmarks/requirements-replay.txt
	@echo "installing other libraries into $(VENV)-peers (some minutes)"
	$(PYTHON) -m venv $(VENV)-peers
	$(VENV)-peers/bin/python -m pip install --disable-pip-version-check --quiet \
		--requirement benchmarks/requirements-replay.txt --editable .
	@touch $@

$(bin)/python:
	$(PYTHON) -m venv $(VENV)
