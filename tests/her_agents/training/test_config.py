"""Configs: options, their ranges, and their files."""

import json
from dataclasses import replace

import gymnasium as gym
import pytest

import her_envs
from her_agents import train
from her_agents.algorithms.registry import choose_clipping, choose_defaults
from her_agents.training.config import Config, make_config, read_options
from her_wrappers import Mixture
from tests.support.commands import her
from tests.support.other_envs import Silent
from tests.support.short_runs import tiny

SHARES = {"future": 0.5, "desired": 0.3, "original": 0.2}


def test_later_sources_override_single_entries_of_tables_unless_they_name_algorithm_or_environment():
    first = {"env": "a", "algo": "sac", "agent": {"temperature": 0.1, "tau": 0.1}, "env_kwargs": {"n": 1}}
    merged = make_config(first, {"agent": {"tau": 0.2}, "env_kwargs": {"m": 2}})
    assert (merged.agent, merged.env_kwargs) == ({"temperature": 0.1, "tau": 0.2}, {"n": 1, "m": 2})
    other = make_config(first, {"algo": "dqn", "agent": {"tau": 0.2}}, {"env": "b", "env_kwargs": {"m": 2}})
    assert (other.agent, other.env_kwargs) == ({"tau": 0.2}, {"m": 2})


def test_a_float_without_a_fraction_is_an_integer():
    config = tiny(steps=1e3, max_episode_steps=50.0)
    assert (config.steps, config.max_episode_steps) == (1000, 50)
    assert json.dumps(config.steps) == "1000"


def test_names_of_files_are_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    config = tiny(env="a/arm.py:Arm", termination="rules.py:done", offline="data")
    assert config.env == f"{tmp_path}/a/arm.py:Arm"
    assert (config.termination, config.offline) == (f"{tmp_path}/rules.py:done", f"{tmp_path}/data")
    config = tiny(env="arm:Arm", termination="success", offline="D4RL/x-v0")
    assert (config.env, config.termination, config.offline) == ("arm:Arm", "success", "D4RL/x-v0")


BAD_OPTIONS = [
    ({"max_episode_steps": 0}, ValueError, "max_episode_steps must be .* >= 1, got 0"),
    ({"setps": 3}, ValueError, "unknown option 'setps'; choose from 'env', 'algo', 'env_kwargs'"),
    ({"gamma": 1.1}, ValueError, r"gamma must be a number in \[0, 1\], got 1.1"),
    ({"learning_starts": 300}, ValueError, "learning_starts must be below steps=300, got 300"),
    ({"seed": 2**63}, ValueError, r"seed must be below 2\*\*63, got 9223"),
    ({"fresh_envs": True}, ValueError, "fresh_envs=True needs workers, got workers=0"),
    ({"her": "no"}, TypeError, "her must be .*, got 'no'"),
    ({"termination": 3}, TypeError, "termination must be .*, got 3"),
    ({"goal_selection_strategy": "futur"}, ValueError, "unknown goal_selection_strategy 'futur'"),
    ({"goal_selection_strategy": {"futur": 1.0}, "her": False}, ValueError, "unknown goal_selection"),
    ({"goal_selection_strategy": SHARES, "n_sampled_goal": 8}, ValueError, "n_sampled_goal must be left out"),
    ({"info_keys": "cost"}, TypeError, "info_keys must be a list of strings"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD_OPTIONS)
def test_invalid_options_raise_an_error(options, error, message):
    with pytest.raises(error, match=message):
        tiny(**options)


def test_a_removed_option_of_a_saved_config_may_have_its_default():
    old = {"tensor_functions": False, "precision": "bf16", "history_every": 5}
    assert make_config(tiny().as_dict(), old) == tiny()
    for name in old:
        with pytest.raises(TypeError, match=name):
            make_config(tiny().as_dict(), {name: "other"})


def test_env_is_required_and_must_be_a_name():
    with pytest.raises(ValueError, match="the option 'env' is missing"):
        make_config({"algo": "sac"})
    for options in ({"env": 1}, {"env": "her_envs/PointReach-v0", "algo": 3}):
        with pytest.raises(TypeError, match=r"(env|algo) must be of type str, got [13]"):
            make_config(options)


@pytest.mark.parametrize(
    ("env", "max_episode_steps", "expected"),
    [
        (lambda: her_envs.TaskEnv(her_envs.BitFlipping(n_bits=5)), None, ("dqn", 20_000, True)),
        (lambda: gym.make("her_envs/PointReach-v0", max_steps=7), None, ("sac", 28_000, True)),
        (lambda: gym.make("her_envs/PointReach-v0", reward_type="dense"), 9, ("sac", 36_000, False)),
        (Silent, None, ("sac", 100_000, True)),
    ],
)
def test_options_that_are_none_are_chosen_for_the_environment(env, max_episode_steps, expected):
    made = env()
    config = choose_defaults(Config("unused", max_episode_steps=max_episode_steps), made)
    config, _ = choose_clipping(config, made)
    assert (config.algo, config.steps, config.clip_targets) == expected
    assert (config.steps_per_epoch, config.updates_per_step) == (4000, 0.25)
    chosen = {"steps_per_epoch": 500, "updates_per_step": 0.1}
    given = Config("unused", "td3", steps=5000, clip_targets=False, **chosen)
    assert choose_clipping(choose_defaults(given, made), made) == (given, "")


def test_the_command_and_train_choose_the_same_options(tmp_path):
    options = {"steps_per_epoch": 4000, "learning_starts": 300, "evaluation_episodes": 1, "num_envs": 100}
    options |= {"updates_per_step": 0.002}
    env_kwargs = {"max_steps": 1, "reward_type": "dense"}
    config = Config("her_envs/PointReach-v0", env_kwargs=env_kwargs, agent={"hidden": [8]}, **options)
    train(config, folder=tmp_path / "a", stop=lambda history: True, on_epoch=None)
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    words += ["-o", "max_steps=1", "-o", "reward_type=dense", "--agent", "hidden=[8]", "--no-check"]
    assert her("train", "her_envs/PointReach-v0", *words, "--out", tmp_path / "b").exit_code == 0
    found = [json.loads((tmp_path / name / "config.json").read_text()) for name in "ab"]
    assert found[0] == found[1]
    assert (found[0]["algo"], found[0]["steps"], found[0]["clip_targets"]) == ("sac", 4000, False)
    assert (tmp_path / "a" / "tensorboard").exists()
    more = replace(config, steps=4400)
    assert train(more, folder=tmp_path / "b", resume=True, on_epoch=None).history[-1]["env_steps"] >= 4400


def test_options_are_read_from_toml_and_json(tmp_path):
    (tmp_path / "a.toml").write_text(
        "[goal_selection_strategy]\nfuture = 0.5\ndesired = 0.3\noriginal = 0.2\n[agent]\nhidden = [8, 8]\n"
    )
    options = {"goal_selection_strategy": SHARES, "agent": {"hidden": [8, 8]}}
    (tmp_path / "a.json").write_text(json.dumps(options))
    assert read_options(tmp_path / "a.toml") == read_options(tmp_path / "a.json") == options


MIXED = {"future": 0.6, "desired": 0.4}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"goal_selection_strategy": "desired"}, {"goal_selection_strategy": "desired", "n_sampled_goal": 4}),
        (
            {"goal_selection_strategy": SHARES},
            {"goal_selection_strategy": Mixture(SHARES), "n_sampled_goal": None},
        ),
        (
            {"goal_selection_strategy": MIXED, "n_sampled_goal": 3},
            {"goal_selection_strategy": Mixture(MIXED), "n_sampled_goal": 3},
        ),
        ({"goal_selection_strategy": SHARES, "her": False}, {"n_sampled_goal": 0}),
    ],
)
def test_shares_of_strategies_are_a_mixture_of_the_buffer(options, expected):
    assert tiny(**options).goal_options() == expected


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "", "config file must have the suffix .toml or .json, got '.*a.yaml'"),
        ("a.toml", "k = ", "a.toml is damaged, or is not a table of options: Invalid value"),
        ("a.json", "[1]", "a.json is damaged, or is not a table of options: .* not a mapping"),
        ("b.json", "[" * 100_000, "b.json is damaged, or is not a table of options: .*recursion"),
    ],
)
def test_files_without_options_raise_an_error(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_options(tmp_path / name)
