# `make demo` and `make test` need nothing but Python and make: they create .venv and install into it. If a virtual
# environment is active, or VENV=FOLDER names one, `make demo` uses it.
PYTHON ?= python3
VENV ?= $(or $(if $(filter-out demo,$(MAKECMDGOALS)),,$(VIRTUAL_ENV)),.venv)
ARGS ?=
bin := $(VENV)/bin
# One process per core; a process without tests left takes some from another.
parallel := --numprocesses auto --dist worksteal
# Compiled modules are stored, also where images of containers switch that off: without, each process compiles again.
unexport PYTHONDONTWRITEBYTECODE
# Only modules that are imported are compiled, when they are imported: compiling all takes a minute or two.
pip := -m pip install --disable-pip-version-check --quiet --no-compile
install := $(bin)/python $(pip) --constraint constraints.txt --editable

# Benchmarks with other libraries run in the virtual environments of these.
bench := $(VENV)$(if $(filter agents,$(ARGS)),-learners/installed,$(if $(filter replay replay_priorities,$(ARGS)),-peers/installed,/installed-all))

# `make help` prints the comments after `##`.
.PHONY: help demo check test slow all-tests gpu lowest real-envs rllib lerobot simulators bench reproduce scoreboard docs lint generate release clean

demo: | $(bin)/python  ## Train on BitFlipping with and without HER; pictures in runs/quickstart.
	@$(bin)/python -c "import matplotlib, pygame, torch, tyro" >/dev/null 2>&1 || $(MAKE) VENV="$(VENV)" "$(VENV)/installed-agents,render"
	$(bin)/python -m examples.quickstart $(ARGS)

check: lint  ## For daily work, two minutes: lint, types and the quickest tests (all durations are known after `make test`).
	$(bin)/python -m pytest $(parallel) -q -p tools.quickest --budget 100 $(ARGS)

test: $(VENV)/installed-all  ## The default tests: a few minutes. ARGS=--cov: line coverage; fails below 95 %.
	$(bin)/python -m pytest $(parallel) -p tools.quickest $(ARGS)

slow: $(VENV)/installed-all  ## The tests marked slow.
	$(bin)/python -m pytest $(parallel) -m slow $(ARGS)

all-tests: $(VENV)/installed-all  ## The default tests with those marked slow, as in CI.
	$(bin)/python -m pytest $(parallel) --durations=30 -m "not campaign and not real_envs and not simulators" $(ARGS)

gpu: $(VENV)/installed-all  ## On a machine with a CUDA GPU: the tests that use it, and the benchmarks of docs/results/*_gpu.md.
	$(bin)/python -m pytest tests/her_agents/algorithms/test_devices.py tests/her_agents/training/test_updates.py tests/her_wrappers/replay -k cuda $(ARGS)
	$(bin)/python -m benchmarks.agents_gpu --device cuda
	$(bin)/python -m benchmarks.replay_gpu --device cuda
	$(bin)/python -m benchmarks.solve_gpu --device cuda

lowest: $(VENV)-lowest/installed  ## The default tests with the oldest supported versions of all dependencies.
	$(VENV)-lowest/bin/python -m pytest $(parallel) $(ARGS)

real-envs: $(VENV)-real/installed  ## Tests of the checker with environments of other projects, in a separate virtual environment.
	$(VENV)-real/bin/python -m pytest $(parallel) -m real_envs tests/real_envs $(ARGS)

rllib: $(VENV)-rllib/installed  ## Tests of the integration with RLlib, in a separate virtual environment.
	$(VENV)-rllib/bin/python -m pytest -m "not campaign" tests/rllib $(ARGS)

lerobot: $(VENV)-lerobot/installed  ## Tests of the integration with LeRobot, in a separate virtual environment.
	$(VENV)-lerobot/bin/python -m pytest tests/lerobot $(ARGS)

simulators: $(VENV)-simulators/installed  ## Tests of GoalSimulator with mjlab and Brax on the CPU, in a separate virtual environment.
	$(VENV)-simulators/bin/python -m pytest -m simulators tests/simulators $(ARGS)

bench: $(bench)  ## Run a benchmark and write its page: ARGS=replay, ARGS="recording --quick"; benchmarks/ lists them.
	$(dir $<)bin/python -m benchmarks.$(ARGS)

reproduce: $(VENV)/installed-all  ## Studies of the papers on HER, with her train and her compare: ARGS="bitflip --quick"; ARGS=--help lists them.
	$(bin)/python -m benchmarks.studies $(ARGS)

scoreboard: $(VENV)-peers/installed $(VENV)-rllib/installed  ## Check all HER buffers, write docs/scoreboard.md; test what the pages say about other libraries.
	$(VENV)-rllib/bin/python -W ignore -m benchmarks.scoreboard rllib:OursForRLlib
	$(VENV)-peers/bin/python -W ignore -m benchmarks.scoreboard $(ARGS)
	$(VENV)-peers/bin/python -m pytest benchmarks/peers tests/torchrl tests/docs/test_torchrl.py tests/examples/test_relabel_for_cpprb.py

docs: $(VENV)/installed-all  ## Build the documentation as static pages in site/; fails on any warning.
	NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build --strict $(ARGS)

lint: $(VENV)/installed-all  ## Check formatting, lint, spelling, directions of imports, generated tables, and types.
	$(bin)/ruff format --check .
	$(bin)/ruff check .
	$(bin)/codespell
	$(bin)/lint-imports --no-cache --no-logo
	$(bin)/python -m tools.generate --check
	$(bin)/mypy

generate: $(VENV)/installed-all  ## Write the generated tables and numbers of README.md and docs.
	$(bin)/python -m tools.generate

release:  ## Build and check the wheel and the sdist, and test them in clean environments (PYTHONS="python3.11 python3.13").
	.ci/release

clean:  ## Remove all generated and installed files except runs/.
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-real $(VENV)-rllib $(VENV)-peers $(VENV)-learners $(VENV)-lerobot $(VENV)-simulators build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage

help:  ## Print this list.
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

$(VENV)/installed-%: pyproject.toml constraints.txt | $(bin)/python
	@echo "installing her-toolkit[$*] into $(VENV) (a minute or two)"
	$(install) ".[$*]"
	@touch $@

$(VENV)-lowest/installed: pyproject.toml constraints-lowest.txt
	@echo "installing the oldest versions into $(VENV)-lowest (a minute or two)"
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python $(pip) --constraint constraints-lowest.txt \
		--editable ".[agents,render,sb3]" sb3-contrib pytest pytest-xdist hypothesis scipy
	@touch $@

$(VENV)-real/installed: pyproject.toml constraints.txt tests/real_envs/requirements.txt
	@echo "installing simulators into $(VENV)-real (some minutes)"
	$(PYTHON) -m venv $(VENV)-real
	$(VENV)-real/bin/python $(pip) --constraint constraints.txt \
		--requirement tests/real_envs/requirements.txt pytest pytest-xdist hypothesis --editable ".[torch]"
	$(VENV)-real/bin/python -m pip uninstall --quiet --yes pygame  # both packages use the folder pygame/
	$(VENV)-real/bin/python $(pip) --force-reinstall --no-deps pygame-ce
	@touch $@

$(VENV)-rllib/installed: pyproject.toml tests/rllib/requirements.txt
	@echo "installing RLlib into $(VENV)-rllib (some minutes)"
	$(PYTHON) -m venv $(VENV)-rllib
	$(VENV)-rllib/bin/python $(pip) \
		--requirement tests/rllib/requirements.txt --editable .
	@touch $@

$(VENV)-lerobot/installed: pyproject.toml tests/lerobot/requirements.txt
	@echo "installing LeRobot into $(VENV)-lerobot (a minute or two)"
	$(PYTHON) -m venv $(VENV)-lerobot
	$(VENV)-lerobot/bin/python $(pip) \
		--requirement tests/lerobot/requirements.txt --editable .
	$(VENV)-lerobot/bin/python $(pip) --no-deps \
		lerobot==0.4.4 torchvision==0.25.0 accelerate==1.15.0
	@touch $@

$(VENV)-simulators/installed: pyproject.toml constraints.txt tests/simulators/requirements.txt
	@echo "installing mjlab and Brax into $(VENV)-simulators (some minutes)"
	$(PYTHON) -m venv $(VENV)-simulators
	$(VENV)-simulators/bin/python $(pip) \
		--requirement tests/simulators/requirements.txt --editable .
	@touch $@

$(VENV)-peers/installed: pyproject.toml benchmarks/requirements-replay.txt
	@echo "installing other libraries into $(VENV)-peers (some minutes)"
	$(PYTHON) -m venv $(VENV)-peers
	$(VENV)-peers/bin/python $(pip) \
		--requirement benchmarks/requirements-replay.txt --editable .
	@touch $@

$(VENV)-learners/installed: pyproject.toml benchmarks/requirements-agents.txt
	@echo "installing other learners into $(VENV)-learners (a few minutes)"
	$(PYTHON) -m venv $(VENV)-learners
	$(VENV)-learners/bin/python $(pip) \
		--requirement benchmarks/requirements-agents.txt --editable ".[render]"
	@touch $@

$(bin)/python:
	$(PYTHON) -m venv $(VENV)
