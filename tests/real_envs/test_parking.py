"""The example with parking-v0 in docs/stable_baselines3.md, with fewer steps and smaller networks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = [pytest.mark.real_envs, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("sb3_contrib", reason="sb3-contrib is missing: tests/real_envs/requirements.txt")

PAGE = (Path(__file__).parents[2] / "docs" / "stable_baselines3.md").read_text()


def test_tqc_parks_with_the_code_of_the_page():
    (code,) = re.findall(r"```py\n(# parking-v0\n.*?)```", PAGE, re.DOTALL)
    for long, short in (("100_000", "300"), ("starts=500", "starts=250"), ("[512, 512, 512]", "[16]")):
        assert long in code
        code = code.replace(long, short)
    code = code.replace("learning_rate=", "seed=0, learning_rate=")  # the lengths of episodes are random
    names: dict = {}
    exec(code, names)
    buffer = names["model"].replay_buffer.hindsight
    assert len(buffer) >= 100
    batch = buffer.sample(500)
    after = batch.next_observations
    parked = names["is_parked"](after["achieved_goal"], after["desired_goal"], [{}] * 500)
    assert (batch.terminations[batch.relabeled] >= parked[batch.relabeled]).all()
    assert parked[batch.relabeled].any()
