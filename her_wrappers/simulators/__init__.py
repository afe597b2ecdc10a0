"""Batched simulators, such as Isaac Lab and mjlab, as goal environments of tensors."""

from her_wrappers.simulators.goal_simulator import GoalSimulator
from her_wrappers.simulators.step import SimulatorStep

__all__ = ["GoalSimulator", "SimulatorStep"]
