"""Wrong usage (exit code 2), and environments and data that cannot be used (3): one message, and no files."""

import pytest

from tests.support.commands import fails

SCALED = "tests.support.specimens.broken_rewards:RewardScaled"
REACH, BITS, ROBOT = "her_envs/PointReach-v0", "her_envs/BitFlipping-v0", "tests/support/robot.py:Robot"
OTHER = "tests.support.other_envs"
MISTAKES = {
    "check": [
        ([], 2, "ENV"),
        ([SCALED, "-o", "size"], 2, "-o must be NAME=VALUE, such as n_bits=5, got 'size'"),
        ([SCALED, "-o", "size=3"], 2, "unexpected keyword argument 'size'"),
        ([SCALED, "--select", "GE777"], 2, "unknown rule code 'GE777'"),
        ([SCALED, "--max-steps", "0"], 2, "--max-steps: expected an integer of at least 1, got 0"),
        ([SCALED, "--max-seconds", "nan"], 2, "max_seconds"),
        (["json:dumps", "-o", "obj=1"], 2, "json:dumps must return a gymnasium Env or VectorEnv"),
    ],
    "check-replay": [
        (["json"], 2, "ADAPTER"),
        (["no_such_module:Adapter"], 2, "no_such_module"),
    ],
    "rules": [(["GE107"], 2, "unknown rule code 'GE107'; did you mean")],
    "envs": [(["her_envs/PointMaze"], 2, "choose from her_envs/BitFlipping-v0")],
    "record": [
        ([REACH, "--out", "a", "--policy", "ppo"], 2, "must be random, a run, or module:function, got"),
        ([REACH, "--out", "a", "--info-keys", "cost"], 2, "must name keys of the infos, got 'cost'"),
    ],
    "compare": [
        ([], 2, "expected at least one run"),
        (["nowhere"], 3, "nowhere does not exist; pass a run folder of `her train`"),
        (["{run}", "--by", "tau"], 2, "by= must contain names of options, got 'tau'"),
        (["{run}", "--out", "a.jpg"], 2, "must end with .pdf"),
    ],
    "evaluate": [
        ([], 2, "expected either POLICY or --recipe NAME, got neither"),
        (["math:sin"], 2, "needs an environment"),
        (["."], 3, "has no best.pt"),
        (["runs/nothing"], 3, "there is no folder or file runs/nothing"),
        (["random", "--env", REACH, "--out", "a.txt"], 2, "must end with .html"),
        (["{run}", "--env", BITS], 2, "space"),
    ],
    "watch": [
        ([], 2, "expected either TARGET (an environment or a run) or --recipe NAME, got neither"),
        ([BITS, "--policy", "clever"], 2, "policy must be"),
        ([BITS, "--record", "out.avi"], 2, "--record"),
        (["{run}", "--policy", "math:sin"], 2, "needs an environment"),
        (["CartPole-v1", "--policy", "{run}"], 3, "must be a Dict"),
        (["{run}", "--record", "{run}/best.pt/out.gif"], 3, "best.pt"),
        (["{run}", "--policy", "{run}", "--env", "her_envs/PointPush-v0"], 2, "needs the observation space"),
    ],
    "train": [
        ([], 2, "ENV is missing; pass an environment"),
        ([BITS, "--algo", "sac"], 2, "sac needs a Box action space, got Discrete(10)"),
        (["x", "--steps", "9000", "--algo", "dqn", "--agent", "tauu=1"], 2, "'tauu' of dqn"),
        (["x", "--algo", "dqn", "--agent", "tau"], 2, "--agent must be NAME=VALUE"),
        ([BITS, "--agent", "temperature=0.1"], 2, "'temperature' of dqn"),  # of the default
        ([REACH, "--termination", "nothing:done"], 2, "cannot load termination 'nothing:done'"),
        ([BITS, "-o", "reward_type=dense", "--clip-targets", "--no-check"], 2, "clip_targets=True needs"),
        ([REACH, "--steps", "9", "--steps=8"], 2, "--steps is given 2 times; pass it once"),
        ([REACH, "--steps", "1.5e0"], 2, "expected an integer, got 1.5e0"),
        (["--recipe", "reech"], 2, "unknown recipe 'reech'; choose from"),
        (["--recipe", "fetch_push", "--resume", "a"], 2, "remove --out, --config and --recipe"),
        (["CartPole-v1", "--algo", "dqn"], 3, "observation space must be a Dict with the keys"),
        ([REACH, "--algo", "sac", "--no-check", "--offline", "no"], 3, "offline='no' cannot be"),
        (["--resume", "nowhere"], 3, "must be the folder of a run, but there is no file nowhere/latest.pt"),
        ([REACH, "--out", "/dev/null/a", "--no-check"], 3, "/dev/null/a"),
        (["--resume", "{run}", "her_envs/PointPush-v0", "--steps", "1e6"], 2, "space"),
        (["--resume", "{run}", "--gamma", "0.5"], 2, "belongs to a run with gamma=0.98"),
        (["--resume", "{run}", "--seeds", "2"], 2, "remove --seeds"),
        ([f"{OTHER}:HalfBoundedActions", "--no-check"], 2, "set bounds with gymnasium.wrappers.Transform"),
        ([f"{OTHER}:NeedsInfo", "--no-check"], 3, "`her train`: --info-keys cost"),
        ([ROBOT, "--real", "--num-envs", "2"], 2, "num_envs=1"),
        ([ROBOT, "--real", "--num-envs", "1", "--seeds", "2", "--jobs", "2"], 2, "--jobs"),
    ],
}


@pytest.mark.parametrize(
    ("command", "arguments", "exit_code", "message"),
    [(command, *case) for command, cases in MISTAKES.items() for case in cases],
    ids=str,
)
def test_a_mistake_has_its_exit_code_and_message(
    command, arguments, exit_code, message, *, reach, tmp_path, monkeypatch
):
    words = [each.format(run=reach[0]) for each in arguments]
    if ROBOT not in words:  # a path in the repository
        monkeypatch.chdir(tmp_path)
    fails(exit_code, message, command, *words)
    assert not list(tmp_path.iterdir())
