"""The page on TorchRL: its programs run with a few steps; its full runs are a campaign."""

import re
import warnings

import pytest

pytest.importorskip("torchrl", reason="torchrl is missing: the extra torchrl")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # TorchRL warns when it is imported
    from torchrl.collectors import Collector  # noqa: F401

from her_wrappers.integrations.torchrl import KEYS
from tests.support.pages import ROOT, names_after

pytestmark = pytest.mark.filterwarnings("ignore")
PAGE = (ROOT / "docs" / "torchrl.md").read_text()


def test_the_programs_run_from_top_to_bottom(capsys):
    short, count = re.subn(r"steps=\d+_000", "steps=300", PAGE)
    assert count == 3
    short, count = re.subn(r"episodes=100", "episodes=2", short)
    assert count == 2
    names = names_after(short)
    printed = capsys.readouterr().out
    assert re.fullmatch(r"with relabeling: \d\.\d\d\nwithout relabeling: \d\.\d\d\nSAC: \d\.\d\d\n", printed)
    assert names["actor"] is not None


@pytest.mark.campaign
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_runs_of_the_page_reach_its_success_rates(seed, capsys):
    code, count = re.subn(r"(steps=\d+_000)\)", rf"\1, seed={seed})", PAGE)
    assert count == 3
    names_after(code)
    with_relabeling, without, sac = map(float, re.findall(r": (\d\.\d\d)\n", capsys.readouterr().out))
    assert with_relabeling >= 0.95
    assert without <= 0.05
    assert sac >= 0.95


def test_every_name_of_keys_is_used_by_torchrl():
    from torchrl.objectives import DQNLoss, SACLoss  # noqa: PLC0415 - imported without warnings above

    for loss in (DQNLoss, SACLoss):
        defaults = loss.default_keys()
        assert (KEYS["action"], KEYS["reward"], KEYS["priority"]) == (
            defaults.action,
            defaults.reward,
            defaults.priority,
        )
