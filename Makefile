# `make demo` and `make test` need nothing but Python and make: they create .venv and install into it.
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
bin := $(VENV)/bin
# One process per core; a process without tests left takes some from another.
parallel := --numprocesses auto --dist worksteal
install := $(bin)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable

# `make help` prints the comments after `##`.
.PHONY: help demo test slow coverage mutants lowest real-envs rllib bench-rllib bench-replay bench-priorities reliability scoreboard reproduce peer-facts docs docs-serve lint types format release clean

demo: $(VENV)/installed-agents,render  ## Train on BitFlipping with and without HER; pictures in runs/quickstart.
	$(bin)/python -m examples.quickstart $(ARGS)

test: $(VENV)/installed-test  ## The default tests: a few minutes.
	$(bin)/python -m pytest $(parallel) $(ARGS)

slow: $(VENV)/installed-test  ## The tests marked slow.
	$(bin)/python -m pytest $(parallel) -m slow $(ARGS)

coverage: $(VENV)/installed-test  ## Line coverage of the default tests; fails below 95 %.
	$(bin)/python -m pytest $(parallel) --cov --cov-report=term $(ARGS)

mutants: $(VENV)/installed-test  ## Mutation testing with a random sample of mutants: ten minutes or more.
	$(bin)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt cosmic-ray
	$(bin)/python .ci/mutants.py $(ARGS)

lowest: $(VENV)-lowest/installed  ## The default tests with the oldest supported versions of all dependencies.
	$(VENV)-lowest/bin/python -m pytest $(parallel) $(ARGS)

real-envs: $(VENV)-real/installed  ## Tests of the checker with environments of other projects, in a separate virtual environment.
	$(VENV)-real/bin/python -m pytest $(parallel) -m real_envs tests/real_envs $(ARGS)

rllib: $(VENV)-rllib/installed  ## Tests of the integration with RLlib, in a separate virtual environment.
	$(VENV)-rllib/bin/python -m pytest -m "not campaign" tests/rllib $(ARGS)

bench-rllib: $(VENV)-rllib/installed  ## Compare the replay buffer with RLlib's own, in a separate virtual environment.
	$(VENV)-rllib/bin/python -m benchmarks.rllib_replay $(ARGS)

bench-replay: $(VENV)-peers/installed  ## Compare the replay buffer with other libraries, in a separate virtual environment.
	$(VENV)-peers/bin/python -m benchmarks.replay $(ARGS)

bench-priorities: $(VENV)-peers/installed  ## Compare the replay buffer with priorities with cpprb.
	$(VENV)-peers/bin/python -m benchmarks.replay_priorities $(ARGS)

reliability: $(VENV)/installed-test  ## Random trials of interruptions, kills and damaged files: about an hour; the default tests run a hundredth.
	$(bin)/python -m benchmarks.reliability $(ARGS)

scoreboard: $(VENV)-peers/installed $(VENV)-rllib/installed  ## Check our buffer and those of other libraries with the conformance suite; write docs/scoreboard.md.
	$(VENV)-rllib/bin/python -W ignore -m benchmarks.scoreboard rllib:OursForRLlib
	$(VENV)-peers/bin/python -W ignore -m benchmarks.scoreboard $(ARGS)

reproduce: $(VENV)/installed-test  ## Reproduce figures of papers on HER; for example ARGS="bitflip --quick".
	$(bin)/python -m benchmarks.studies $(ARGS)

peer-facts: $(VENV)-peers/installed  ## Test the statements of the pages about other libraries, and the example with cpprb.
	$(VENV)-peers/bin/python -m pytest tests/peers tests/docs/test_torchrl.py tests/examples/test_relabel_for_cpprb.py $(ARGS)

docs: $(VENV)/installed-docs  ## Build the documentation as static pages in site/; fails on any warning.
	NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build --strict $(ARGS)

docs-serve: $(VENV)/installed-docs  ## Serve the documentation at http://127.0.0.1:8000, and rebuild it after changes.
	NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs serve $(ARGS)

lint: $(VENV)/installed-test  ## Check formatting and lint.
	$(bin)/ruff format --check .
	$(bin)/ruff check .
	$(bin)/codespell

types: $(VENV)/installed-test  ## mypy --strict.
	$(bin)/mypy

format: $(VENV)/installed-test  ## Format the code, and apply ruff's fixes.
	$(bin)/ruff format .
	$(bin)/ruff check --fix .

release:  ## Build and check the wheel and the sdist, and test them in clean environments (PYTHONS="python3.11 python3.13").
	.ci/release

clean:  ## Remove all generated and installed files except runs/.
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-real $(VENV)-rllib $(VENV)-peers build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage

help:  ## Print this list.
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
		--requirement tests/real_envs/requirements.txt pytest pytest-xdist hypothesis --editable ".[torch]"
	$(VENV)-real/bin/python -m pip uninstall --quiet --yes pygame  # both packages use the folder pygame/
	$(VENV)-real/bin/python -m pip install --disable-pip-version-check --quiet --force-reinstall --no-deps pygame-ce
	@touch $@

$(VENV)-rllib/installed: pyproject.toml tests/rllib/requirements.txt
	@echo "installing RLlib into $(VENV)-rllib (some minutes)"
	$(PYTHON) -m venv $(VENV)-rllib
	$(VENV)-rllib/bin/python -m pip install --disable-pip-version-check --quiet \
		--requirement tests/rllib/requirements.txt --editable .
	@touch $@

$(VENV)-peers/installed: pyproject.toml benchmarks/requirements-replay.txt
	@echo "installing other libraries into $(VENV)-peers (some minutes)"
	$(PYTHON) -m venv $(VENV)-peers
	$(VENV)-peers/bin/python -m pip install --disable-pip-version-check --quiet \
		--requirement benchmarks/requirements-replay.txt --editable .
	@touch $@

$(bin)/python:
	$(PYTHON) -m venv $(VENV)
