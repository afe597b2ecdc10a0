"""Batched simulators, such as Isaac Lab and mjlab, as goal environments of tensors."""

from her_wrappers.replay.lanes import SimulatorStep
from her_wrappers.simulators.goal_simulator import GoalSimulator

__all__ = ["GoalSimulator", "SimulatorStep"]
