"""Hindsight Experience Replay for any Gymnasium goal environment: check, record, relabel."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from her_wrappers.checker import GoalEnvChecker, check_goal_env
from her_wrappers.data.arrays import CorruptFileError
from her_wrappers.data.atomic import InUseError
from her_wrappers.goals.interface import GoalInterface
from her_wrappers.goals.real_robot import RealRobot
from her_wrappers.recording.archive import EpisodeArchive
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.recorder import EpisodeRecorder, VectorEpisodeRecorder
from her_wrappers.recording.sinks import NotFiniteError, SinkError
from her_wrappers.replay.batch import Batch
from her_wrappers.replay.buffer import HindsightReplayBuffer
from her_wrappers.replay.goal_selection import Geometric, Mixture
from her_wrappers.replay.options import Demonstrations
from her_wrappers.replay.priorities import Priority
from her_wrappers.replay.relabel_episode import relabel_episode
from her_wrappers.rules import Finding, Report, ReportError

if TYPE_CHECKING:
    from her_wrappers.collecting import Collector
    from her_wrappers.conformance import ReplayAdapter, check_replay
    from her_wrappers.diagnosis import diagnose
    from her_wrappers.replay.device_buffer import DeviceReplayBuffer
    from her_wrappers.replay.lanes import SimulatorStep

__version__ = "1.0.0"

__all__ = [
    "Batch",
    "Collector",
    "CorruptFileError",
    "Demonstrations",
    "DeviceReplayBuffer",
    "Episode",
    "EpisodeArchive",
    "EpisodeRecorder",
    "Episodes",
    "Finding",
    "Geometric",
    "GoalEnvChecker",
    "GoalInterface",
    "HindsightReplayBuffer",
    "InUseError",
    "Mixture",
    "NotFiniteError",
    "Priority",
    "RealRobot",
    "ReplayAdapter",
    "Report",
    "ReportError",
    "SimulatorStep",
    "SinkError",
    "VectorEpisodeRecorder",
    "check_goal_env",
    "check_replay",
    "diagnose",
    "relabel_episode",
]

# Most programs do not use these names, so their modules are imported at the first use.
_MODULES = {
    "Collector": "her_wrappers.collecting",
    "DeviceReplayBuffer": "her_wrappers.replay.device_buffer",
    "ReplayAdapter": "her_wrappers.conformance",
    "SimulatorStep": "her_wrappers.replay.lanes",
    "check_replay": "her_wrappers.conformance",
    "diagnose": "her_wrappers.diagnosis",
}

if not TYPE_CHECKING:  # with this function, mypy would accept any attribute

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
