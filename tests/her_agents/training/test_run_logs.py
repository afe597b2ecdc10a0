"""Success rates of runs, read from folders, CSV files and TensorBoard logs."""

import json

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.monitor import Monitor

import her_envs  # noqa: F401 - registers the bundled ids
from her_agents import RunLog, compare, read_runs
from her_wrappers.data.arrays import CorruptFileError
from her_wrappers.integrations.sb3 import HerReplayBuffer


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def write_run(folder, rates=(0.5, 1.0), **config):
    rows = [f"{i},{10 * i},0,{60 * i},{rate}" for i, rate in enumerate(rates, 1)]
    write(folder / "progress.csv", "\n".join(["epoch,env_steps,updates,seconds,success_rate", *rows]) + "\n")
    (folder / "config.json").write_text(json.dumps({"env": "e", "algo": "sac", "agent": {}, **config}))
    return folder


def test_a_folder_of_her_train_has_its_options_with_the_defaults_of_the_agent(tmp_path):
    [run] = read_runs(write_run(tmp_path / "reach-7", env_kwargs={"n": 3}, agent={"tau": 0.5}))
    assert (run.steps.tolist(), run.success_rate.tolist(), run.seconds.tolist()) == (
        [10, 20],
        [0.5, 1],
        [60, 120],
    )
    options = {name: run.options[name] for name in ("agent.tau", "agent.temperature", "env_kwargs.n", "env")}
    assert options == {"agent.tau": 0.5, "agent.temperature": 0.1, "env_kwargs.n": 3, "env": "e"}


def test_runs_of_a_folder_and_runs_with_names_that_differ_in_the_seed_are_groups(tmp_path, monkeypatch):
    for name in ("her/seed-0", "her/seed-1", "plain/seed-0", "Reach-v0-sac-0", "Reach-v0-sac-12", "SAC_1"):
        write_run(tmp_path / name)
    monkeypatch.chdir(tmp_path)

    def groups(*paths):
        return [(row.group, row.runs) for row in compare(*paths).rows]

    assert groups("her", "plain") == [("her", 2), ("plain", 1)]
    assert groups("her/seed-0", "plain/seed-0", "her/seed-1") == [("her", 2), ("plain", 1)]
    assert groups("Reach-v0-sac-0", "SAC_1", "Reach-v0-sac-12") == [("Reach-v0-sac", 2), ("SAC", 1)]
    assert groups("mine=her", "Reach-v0-sac-0") == [("mine", 2), ("Reach-v0-sac", 1)]


def test_equal_names_in_different_folders_stay_different_groups(tmp_path):
    paths = [write_run(tmp_path / name / "sac" / "0").parent for name in ("first", "second")]
    assert [row.group for row in compare(*paths).rows] == list(map(str, paths))


def test_a_csv_file_may_have_several_runs_and_options(tmp_path):
    lines = [
        "run,strategy,env_steps,success_rate",
        "x,future,10,0.1",
        "y,final,10,0.3",
        "x,future,20,0.2",
        "x,future,20,0.4",
    ]
    runs = read_runs(write(tmp_path / "r.csv", "\n".join(lines)))
    assert [(run.steps.tolist(), run.success_rate.tolist()) for run in runs] == [
        ([10, 20], [0.1, 0.4]),
        ([10], [0.3]),
    ]
    assert [row.group for row in compare(*runs, by=["strategy"]).rows] == [
        "strategy future",
        "strategy final",
    ]
    assert np.isnan(runs[0].seconds).all()


def test_the_csv_log_of_sb3_is_read(tmp_path):
    lines = [
        "time/total_timesteps,eval/success_rate,rollout/success_rate,time/time_elapsed",
        "50,,0.1,1",
        "100,0.5,0.2,2",
    ]
    [run] = read_runs(write(tmp_path / "progress.csv", "\n".join(lines)).parent)
    assert (run.steps.tolist(), run.success_rate.tolist(), run.seconds.tolist()) == ([100], [0.5], [2])


def test_the_steps_of_an_offline_run_are_its_updates(tmp_path):
    text = "env_steps,updates,success_rate\n0,500,0.1\n0,1000,0.2\n"
    assert read_runs(write(tmp_path / "r.csv", text))[0].steps.tolist() == [500, 1000]


def test_tensorboard_logs_of_sb3_are_read(tmp_path):
    env = Monitor(gym.make("her_envs/BitFlipping-v0", n_bits=3))
    for seed in range(2):
        model = DQN(
            "MultiInputPolicy",
            env,
            replay_buffer_class=HerReplayBuffer,
            replay_buffer_kwargs={"termination": "success"},
            learning_starts=20,
            buffer_size=500,
            tensorboard_log=str(tmp_path / "tb"),
            seed=seed,
        )
        model.learn(120, callback=EvalCallback(env, n_eval_episodes=4, eval_freq=40, verbose=0))
    runs = read_runs(tmp_path / "tb")
    assert [run.steps.tolist() for run in runs] == [[40, 80, 120]] * 2
    assert all((np.diff(run.seconds) > 0).all() for run in runs)
    rows = compare(tmp_path / "tb").rows
    assert [(row.group, row.runs) for row in rows] == [("tb", 2)]


UNUSABLE = [
    ("empty.csv", "", "got the columns: none, since the file has no rows"),
    ("other.csv", "a,b\n1,2\n", "must have a column of steps with the name .* got the columns: 'a', 'b'"),
    ("none.csv", "env_steps,success_rate\n10,\n", "has no evaluation with a success rate"),
    ("percent.csv", "env_steps,success_rate\n10,50\n", r"must lie in \[0, 1\], got 50"),
    ("text.csv", "env_steps,success_rate\nten,1\n", "is damaged: could not convert"),
    ("config.json", "{}", "contains no run"),
    ("events.out.tfevents.1.x", "not events", "must have a scalar 'success_rate'|is damaged"),
]


@pytest.mark.parametrize(("name", "text", "message"), UNUSABLE)
def test_unusable_logs_are_named(name, text, message, tmp_path):
    path = write(tmp_path / name, text)
    with pytest.raises(ValueError, match=message):
        read_runs(path if path.suffix == ".csv" else tmp_path)


def test_steps_of_a_log_must_increase():
    with pytest.raises(ValueError, match="steps of mine must increase, got 5 after 5"):
        RunLog("mine", np.array([1.0, 5.0, 5.0, 9.0]), np.zeros(4), np.zeros(4))


def test_a_damaged_config_is_named(tmp_path):
    write_run(tmp_path)
    write(tmp_path / "config.json", "{")
    with pytest.raises(CorruptFileError, match=r"config\.json is damaged"):
        read_runs(tmp_path)
    with pytest.raises(ValueError, match="nowhere does not exist"):
        read_runs(tmp_path / "nowhere")
