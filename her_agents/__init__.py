"""Agents for goal environments, and functions to train and evaluate them; used by ``her train``.

`import her_agents` does not import torch; torch is imported at the first use of a public name that needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from her_agents.algorithms.base import Agent
    from her_agents.algorithms.dqn import DQN
    from her_agents.algorithms.iql import IQL
    from her_agents.algorithms.networks import Network as Network
    from her_agents.algorithms.networks import NetworkInput as NetworkInput
    from her_agents.algorithms.options import (
        AgentOptions,
        DDPGOptions,
        DQNOptions,
        IQLOptions,
        SACOptions,
        TD3Options,
        TQCOptions,
    )
    from her_agents.algorithms.sac import SAC
    from her_agents.algorithms.td3 import DDPG, TD3
    from her_agents.algorithms.tqc import TQC
    from her_agents.results.comparison import Comparison, compare
    from her_agents.results.evaluation_report import EvaluationReport, evaluate_goals
    from her_agents.results.onnx_export import export_onnx
    from her_agents.training.checkpoints import export_policy, load_agent
    from her_agents.training.config import Config, make_config
    from her_agents.training.demonstrations import record_successes
    from her_agents.training.evaluation import Evaluation, evaluate, evaluate_simulator, play_episode
    from her_agents.training.evaluation import Policy as Policy
    from her_agents.training.logs import is_solved
    from her_agents.training.loop import Result, train
    from her_agents.training.run_logs import RunLog, read_runs

_NAMES = {
    "algorithms.base": ("Agent",),
    "algorithms.dqn": ("DQN",),
    "algorithms.iql": ("IQL",),
    "algorithms.networks": ("Network", "NetworkInput"),
    "algorithms.options": (
        "AgentOptions",
        "DDPGOptions",
        "DQNOptions",
        "IQLOptions",
        "SACOptions",
        "TD3Options",
        "TQCOptions",
    ),
    "algorithms.sac": ("SAC",),
    "algorithms.td3": ("DDPG", "TD3"),
    "algorithms.tqc": ("TQC",),
    "results.comparison": ("Comparison", "compare"),
    "results.evaluation_report": ("EvaluationReport", "evaluate_goals"),
    "results.onnx_export": ("export_onnx",),
    "training.checkpoints": ("export_policy", "load_agent"),
    "training.config": ("Config", "make_config"),
    "training.demonstrations": ("record_successes",),
    "training.evaluation": ("Evaluation", "Policy", "evaluate", "evaluate_simulator", "play_episode"),
    "training.logs": ("is_solved",),
    "training.loop": ("Result", "train"),
    "training.run_logs": ("RunLog", "read_runs"),
}
"""Public names of each module."""

__all__ = [
    "DDPG",
    "DQN",
    "IQL",
    "SAC",
    "TD3",
    "TQC",
    "Agent",
    "AgentOptions",
    "Comparison",
    "Config",
    "DDPGOptions",
    "DQNOptions",
    "Evaluation",
    "EvaluationReport",
    "IQLOptions",
    "Result",
    "RunLog",
    "SACOptions",
    "TD3Options",
    "TQCOptions",
    "compare",
    "evaluate",
    "evaluate_goals",
    "evaluate_simulator",
    "export_onnx",
    "export_policy",
    "is_solved",
    "load_agent",
    "make_config",
    "play_episode",
    "read_runs",
    "record_successes",
    "train",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if not TYPE_CHECKING:  # with this function, mypy would accept any attribute

    def __getattr__(name: str) -> Any:
        module = next((module for module, names in _NAMES.items() if name in names), None)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f"{__name__}.{module}"), name)
        except ModuleNotFoundError as error:
            if error.name == "torch":
                error.msg = 'her_agents needs torch; run: pip install "her-toolkit[agents]"'
            raise
