"""Hindsight Experience Replay for any Gymnasium goal environment: check, record, relabel."""

from her_wrappers.checker import GoalEnvChecker, check_goal_env
from her_wrappers.files.arrays import CorruptFileError
from her_wrappers.files.atomic import InUseError
from her_wrappers.goal_interface import GoalInterface
from her_wrappers.recording.archive import EpisodeArchive
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.recorder import EpisodeRecorder, VectorEpisodeRecorder
from her_wrappers.recording.sinks import SinkError
from her_wrappers.replay.batch import Batch
from her_wrappers.replay.buffer import HindsightReplayBuffer
from her_wrappers.replay.goal_selection import Geometric, Mixture
from her_wrappers.replay.priorities import Priority
from her_wrappers.replay.relabel_episode import relabel_episode
from her_wrappers.rules import Finding, Report, ReportError

__version__ = "0.2.0.dev0"

__all__ = [
    "Batch",
    "CorruptFileError",
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
    "Priority",
    "Report",
    "ReportError",
    "SinkError",
    "VectorEpisodeRecorder",
    "check_goal_env",
    "relabel_episode",
]
