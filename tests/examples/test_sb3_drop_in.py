"""The example with Stable-Baselines3: a short run, and the line that differs."""

from functools import partial
from pathlib import Path

import pytest

sb3 = pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: the extra sb3")

from examples import sb3_drop_in  # noqa: E402 - after the check that it is there


def test_trains_both_and_prints_success_rates(capsys):
    sb3_drop_in.main(reach_steps=60, flip_steps=400, bits=3)
    output = capsys.readouterr().out
    assert "SAC on PointReach: success rate 0." in output
    assert "DQN on BitFlipping: success rate 1.00 after 400 steps" in output


def test_without_its_line_the_program_uses_only_sb3(monkeypatch):
    text = Path(sb3_drop_in.__file__).read_text()
    [ours] = [line for line in text.splitlines() if "was: " in line]
    text = text.replace(ours, "from stable_baselines3 import HerReplayBuffer")
    names = {"__name__": "plain"}
    exec(compile(text, "plain", "exec"), names)
    names["DQN"] = partial(sb3.DQN, buffer_size=1_000)  # SB3 makes a dict for each place in its buffer
    assert type(names["flip"](0, 3).replay_buffer) is sb3.HerReplayBuffer
