"""Configs: options, their ranges, and their files."""

from __future__ import annotations

import json

import pytest

from her_agents.algorithms import ALGORITHMS
from her_agents.config import AGENT_COUNTS, AGENT_FLAGS, RULES, make_config, read_options
from her_wrappers import Mixture
from tests.support.trainings import tiny


def test_every_argument_of_an_agent_is_checked():
    """Without these checks, a wrong value raises an error only in the middle of a training."""
    taken = {name for algorithm in ALGORITHMS.values() for name in algorithm.__init__.__kwdefaults__}
    checked = {*RULES, *AGENT_COUNTS, *AGENT_FLAGS, "hidden", "seed", "clip_targets"}
    assert taken == checked - {"updates_per_step"}


def test_later_sources_override_single_entries_of_tables():
    first = {"env": "a", "algo": "sac", "agent": {"hidden": [8], "tau": 0.1}, "env_kwargs": {"n": 1}}
    merged = make_config(first, {"agent": {"tau": 0.2}, "env_kwargs": {"m": 2}})
    assert merged.agent == {"hidden": [8], "tau": 0.2}
    assert merged.env_kwargs == {"n": 1, "m": 2}


def test_options_of_another_algorithm_or_environment_replace_the_whole_table():
    first = {"env": "a", "algo": "sac", "agent": {"temperature": 0.1}, "env_kwargs": {"n": 1}}
    merged = make_config(first, {"algo": "dqn", "agent": {"tau": 0.2}}, {"env": "b", "env_kwargs": {"m": 2}})
    assert merged.agent == {"tau": 0.2}
    assert merged.env_kwargs == {"m": 2}


BAD_OPTIONS = [
    ({"setps": 3}, ValueError, "unknown option 'setps'; choose from 'env', 'algo', 'env_kwargs'"),
    ({"steps": 0}, ValueError, "steps must be an integer >= 1, got 0"),
    ({"steps": 1.5}, ValueError, "steps must be an integer >= 1, got 1.5"),
    ({"gamma": 1.0}, ValueError, r"gamma must lie in \(0, 1\), got 1.0"),
    ({"gamma": 0}, ValueError, r"gamma must lie in \(0, 1\), got 0"),
    ({"gamma": True}, ValueError, r"gamma must lie in \(0, 1\), got True"),
    (
        {"learning_starts": 600},
        ValueError,
        "learning_starts must be below steps=600, got 600: the agent would",
    ),
    ({"seed": 2**63}, ValueError, r"seed must be below 2\*\*63, got 9223"),
    ({"updates_per_step": float("inf")}, ValueError, r"updates_per_step must lie in \(0, inf\), got inf"),
    ({"updates_per_step": float("nan")}, ValueError, r"updates_per_step must lie in \(0, inf\), got nan"),
    ({"fresh_envs": True}, ValueError, "fresh_envs needs workers; set workers to 1 or more"),
    ({"fresh_envs": 1, "workers": 1}, TypeError, "fresh_envs must be true or false, got 1"),
    ({"linear_schedule": "yes"}, TypeError, "linear_schedule must be true or false, got 'yes'"),
    ({"agent": {"hidden": 3}}, ValueError, "hidden must be a list of integers, got 3"),
    ({"agent": {"hidden": [8, -3]}}, ValueError, "each entry of hidden must be an integer >= 1, got -3"),
    ({"agent": {"policy_delay": 0}}, ValueError, "policy_delay must be an integer >= 1, got 0"),
    ({"agent": {"n_quantiles": 1.5}}, ValueError, "n_quantiles must be an integer >= 1, got 1.5"),
    ({"agent": {"layer_norm": 1}}, TypeError, "layer_norm must be true or false, got 1"),
    ({"agent": {"epsilon": "a"}}, ValueError, r"epsilon must lie in \[0, 1\], got 'a'"),
    ({"agent": {"tau": 0}}, ValueError, r"tau must lie in \(0, 1\], got 0"),
    ({"agent": {"temperature": 0}}, ValueError, r"temperature must lie in \(0, inf\), got 0"),
    ({"agent": {"action_l2": -1}}, ValueError, r"action_l2 must lie in \[0, inf\), got -1"),
    ({"agent": {"target_entropy": "low"}}, ValueError, "target_entropy must be a finite number, got 'low'"),
    ({"updates_per_step": 0}, ValueError, r"updates_per_step must lie in \(0, inf\), got 0"),
    ({"her": "no"}, TypeError, "her must be true or false, got 'no'"),
    ({"prioritized": 1}, TypeError, "prioritized must be true or false, got 1"),
    ({"env_kwargs": [1]}, TypeError, r"env_kwargs must be a table of names and values, got \[1\]"),
    ({"strategy": 3}, TypeError, "strategy must be a string or a table of shares, got 3"),
    ({"strategy": "futur"}, ValueError, "strategy: unknown goal_selection_strategy 'futur'; choose from"),
    ({"strategy": {"futur": 1.0}}, ValueError, "strategy: unknown goal_selection_strategy 'futur'"),
    ({"strategy": {"futur": 1.0}, "her": False}, ValueError, "strategy: unknown goal_selection_strategy"),
    ({"strategy": {"future": 0.5}}, ValueError, "strategy: shares of a Mixture must sum to 1, got 0.5"),
    ({"strategy": {}}, ValueError, "strategy: shares of a Mixture must sum to 1, got 0"),
    (
        {"strategy": {"future": "half"}},
        ValueError,
        r"strategy: shares of a Mixture must lie in \(0, 1",
    ),
    (
        {"strategy": {"future": 0.5, "original": 0.5}, "k": 8},
        ValueError,
        "k must be left out if strategy has a share of 'original', got 8",
    ),
    ({"info_keys": "cost"}, TypeError, "info_keys must be a list of strings"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD_OPTIONS)
def test_invalid_options_raise_an_error(options, error, message):
    with pytest.raises(error, match=message):
        tiny(**options)


def test_env_and_algo_are_required():
    with pytest.raises(ValueError, match="expected algo, got none; pass --algo or write it into the file"):
        make_config({"env": "her_envs/BitFlipping-v0"})


def test_options_are_read_from_toml_and_json(tmp_path):
    (tmp_path / "a.toml").write_text('env = "x"\nk = 8\n[agent]\nhidden = [8, 8]\n')
    (tmp_path / "a.json").write_text('{"env": "x", "k": 8, "agent": {"hidden": [8, 8]}}')
    assert read_options(tmp_path / "a.toml") == read_options(tmp_path / "a.json")


SHARES = {"future": 0.5, "desired": 0.3, "original": 0.2}


def test_shares_of_strategies_are_read_from_toml_and_json(tmp_path):
    (tmp_path / "a.toml").write_text("[strategy]\nfuture = 0.5\ndesired = 0.3\noriginal = 0.2\n")
    (tmp_path / "a.json").write_text(json.dumps({"strategy": SHARES}))
    for name in ("a.toml", "a.json"):
        assert tiny(**read_options(tmp_path / name)).strategy == SHARES


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"strategy": "desired"}, {"goal_selection_strategy": "desired", "n_sampled_goal": 4}),
        ({"strategy": SHARES}, {"goal_selection_strategy": Mixture(SHARES), "n_sampled_goal": None}),
        (
            {"strategy": {"future": 0.6, "desired": 0.4}, "k": 3},
            {"goal_selection_strategy": Mixture({"future": 0.6, "desired": 0.4}), "n_sampled_goal": 3},
        ),
        ({"strategy": SHARES, "her": False}, {"n_sampled_goal": 0}),
    ],
)
def test_shares_of_strategies_are_a_mixture_of_the_buffer(options, expected):
    assert tiny(**options).goal_options() == expected


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "", "expected a file with the suffix .toml or .json, got .*a.yaml"),
        ("a.toml", "k = ", "cannot read .*a.toml: Invalid value"),
        ("a.json", "{", "cannot read .*a.json: Expecting property name"),
        ("a.json", "[1]", r"must contain options by name, got \[1\]"),
        ("b.json", None, "cannot read .*b.json: .*No such file"),
    ],
)
def test_files_without_options_raise_an_error(name, text, message, tmp_path):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_options(tmp_path / name)
