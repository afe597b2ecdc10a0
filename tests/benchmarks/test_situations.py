"""The matrix of situations: how its cells are judged."""

import re
import warnings

import pytest

from benchmarks.situations import COLUMNS, Reach, judge
from her_wrappers import HindsightReplayBuffer


@pytest.mark.parametrize(
    ("column", "situation", "verdict"),
    [
        ("EpisodeRecorder", "correct", "right"),
        ("add", "infos", "warned"),
        ("Sync SameStep", "one reused array", "warned"),
        ("Sync NextStep", "shared object", "rejected"),
    ],
)
def test_a_cell_is_right_warned_or_rejected(column, situation, verdict):
    assert judge(situation, COLUMNS[column][1])[0] == verdict


def test_the_warning_about_resets_counts_episodes():
    _, reason = judge("hidden reset", COLUMNS["EpisodeRecorder"][1])
    number, count = re.search(r"(\d+) of (\d+) episodes contain a reset", reason).groups()
    assert int(number) <= int(count)


def unchecked(situation, at_end):
    """Record without the checks of the buffer, with a warning about something else."""
    warnings.warn("the goal has an unusual reward", UserWarning, stacklevel=1)
    with pytest.MonkeyPatch.context() as patch:
        for check in ("inspect", "inspect_stored"):
            patch.setattr(f"her_wrappers.replay.relabeling_warnings.EpisodeChecks.{check}", lambda *_: None)
        return COLUMNS["EpisodeRecorder"][1](situation, at_end)


@pytest.mark.parametrize("situation", ["infos", "ends at goals", "hidden reset", "goal in observation"])
def test_wrong_transitions_without_a_warning_of_this_situation_are_silently_wrong(situation):
    assert judge(situation, unchecked)[0] == "**silently wrong**"


def test_other_errors_and_too_few_episodes_do_not_count_as_rejected():
    def fails(situation, at_end):
        raise RuntimeError("effort")

    def records_nothing(situation, at_end):
        return HindsightReplayBuffer.for_env(Reach(), seed=0)

    for record in (fails, records_nothing):
        assert judge("infos", record)[0] == "**failed**"


def test_a_warning_about_the_correct_environment_is_a_false_alarm():
    def warns(situation, at_end):
        warnings.warn("episodes contain a reset", UserWarning, stacklevel=1)
        return COLUMNS["EpisodeRecorder"][1](situation, at_end)

    assert judge("correct", warns)[0] == "**false alarm**"
