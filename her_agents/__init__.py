"""Agents for goal environments, and functions to train and evaluate them; used by ``her train``.

`import her_agents` does not import torch; torch is imported at the first use of a public name that needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from her_agents.agent import Agent
    from her_agents.checkpoints import export_policy, load_agent
    from her_agents.comparison import Comparison, compare
    from her_agents.config import Config, make_config
    from her_agents.dqn import DQN
    from her_agents.evaluation import Evaluation, evaluate, play_episode
    from her_agents.evaluation_report import EvaluationReport, evaluate_goals
    from her_agents.iql import IQL
    from her_agents.loop import Result, is_solved, train
    from her_agents.onnx_export import export_onnx
    from her_agents.run_logs import RunLog, read_runs
    from her_agents.sac import SAC
    from her_agents.td3 import DDPG, TD3
    from her_agents.tqc import TQC

_NAMES = {
    "agent": ("Agent",),
    "checkpoints": ("export_policy", "load_agent"),
    "comparison": ("Comparison", "compare"),
    "config": ("Config", "make_config"),
    "dqn": ("DQN",),
    "evaluation": ("Evaluation", "evaluate", "play_episode"),
    "evaluation_report": ("EvaluationReport", "evaluate_goals"),
    "iql": ("IQL",),
    "loop": ("Result", "is_solved", "train"),
    "run_logs": ("RunLog", "read_runs"),
    "onnx_export": ("export_onnx",),
    "sac": ("SAC",),
    "td3": ("DDPG", "TD3"),
    "tqc": ("TQC",),
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
    "Comparison",
    "Config",
    "Evaluation",
    "EvaluationReport",
    "Result",
    "RunLog",
    "compare",
    "evaluate",
    "evaluate_goals",
    "export_onnx",
    "export_policy",
    "is_solved",
    "load_agent",
    "make_config",
    "play_episode",
    "read_runs",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import the module that defines a public name, when the name is first used.

    Raises:
        AttributeError: The package does not define the name.
        ModuleNotFoundError: The name needs torch or another package that is not installed.
    """
    module = next((module for module, names in _NAMES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as error:
        if error.name == "torch":
            error.msg = 'her_agents needs torch; run: pip install "her-toolkit[agents]"'
        raise
