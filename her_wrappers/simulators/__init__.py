"""Batched simulators: GoalSimulator turns Isaac Lab, mjlab, ManiSkill, Brax and others into goal environments."""

from her_wrappers.simulators.goal_simulator import GoalSimulator
from her_wrappers.simulators.step import SimulatorStep

__all__ = ["GoalSimulator", "SimulatorStep"]
