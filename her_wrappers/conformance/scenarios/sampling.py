"""Scenarios of episodes of equal length: goals, rewards and terminations of sampled rows."""

from __future__ import annotations

from dataclasses import dataclass

from her_wrappers.conformance.adapter import STRATEGIES
from her_wrappers.conformance.env import ConformanceEnv, GoalKind
from her_wrappers.conformance.rows import DecodedRows
from her_wrappers.conformance.scenarios.driver import (
    HORIZON,
    SCENARIOS,
    AdapterClass,
    BufferDriver,
    Scenario,
    scenario,
)


@dataclass
class EqualEpisodes:
    """Rows of 400 episodes of equal length.

    Attributes:
        rows: Rows of batches of 128 rows.
        small: Rows of batches of 1, 2 and 7 rows, by the number of rows.
        reward_calls: Number of calls of ``compute_reward`` while ``rows`` were sampled.
    """

    rows: DecodedRows
    small: dict[int, DecodedRows]
    reward_calls: int


@scenario
def equal_episodes(adapter: AdapterClass, seed: int) -> EqualEpisodes:
    """400 episodes of 6 steps."""
    driver = BufferDriver(adapter, seed)
    driver.add_episodes([6] * 400)
    before = driver.env.reward_calls
    batches = driver.batches(48)
    calls = driver.env.reward_calls - before
    small = {rows: driver.rows(count, rows) for rows, count in ((1, 150), (2, 150), (7, 200))}
    return EqualEpisodes(driver.decode(batches), small, calls)


def _strategy(name: str) -> Scenario:
    def sample(adapter: AdapterClass, seed: int) -> DecodedRows:
        driver = BufferDriver(adapter, seed, strategy=name)
        driver.add_episodes([6] * 100)
        return driver.rows(16)

    return sample


for _name in STRATEGIES:
    SCENARIOS[f"strategy {_name}"] = _strategy(_name)


@scenario
def one_relabeled_per_original(adapter: AdapterClass, seed: int) -> DecodedRows:
    """A buffer with n_sampled_goal=1."""
    driver = BufferDriver(adapter, seed, k=1)
    driver.add_episodes([6] * 60)
    return driver.rows(12)


@scenario
def few_episodes(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Three episodes, so that a batch has many rows of each episode."""
    driver = BufferDriver(adapter, seed)
    driver.add_episodes([HORIZON] * 3)
    return driver.rows(12)


@scenario
def ends_of_episodes(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Episodes that end by time limit, crash and success."""
    strategy = "episode" if "episode" in adapter.offers else ""
    driver = BufferDriver(adapter, seed, strategy=strategy)
    driver.add_episodes([5] * 60, ("time limit", "crash", "success"))
    return driver.rows(16)


@scenario
def changing_goals(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Desired goals that change inside episodes."""
    driver = BufferDriver(adapter, seed)
    for _ in range(20):
        driver.add_episode(8, changing=True)
    return driver.rows(8)


@scenario
def recorded_rewards(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Steps with rewards that compute_reward does not return."""
    driver = BufferDriver(adapter, seed, env=ConformanceEnv(bonus=-0.25))
    driver.add_episodes([6] * 20)
    return driver.rows(8)


@scenario
def infos(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Rewards that depend on infos."""
    driver = BufferDriver(adapter, seed, env=ConformanceEnv(costs=True))
    driver.add_episodes([6] * 20)
    return driver.rows(8)


def _goals(kind: GoalKind) -> Scenario:
    def sample(adapter: AdapterClass, seed: int) -> DecodedRows:
        driver = BufferDriver(adapter, seed, env=ConformanceEnv(kind))
        driver.add_episodes([6] * 20)
        return driver.rows(8)

    return sample


SCENARIOS["image goals"] = _goals("image")
SCENARIOS["discrete goals"] = _goals("discrete")
