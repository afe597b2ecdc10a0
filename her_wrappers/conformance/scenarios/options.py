"""Scenarios of buffers with n-step returns, and with priorities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from her_wrappers.conformance.rows import BatchError, DecodedRows
from her_wrappers.conformance.scenarios.driver import AdapterClass, BufferDriver, changed_keys, scenario

N_STEPS, GAMMA = 3, 0.5
"""Options of the scenario of n-step returns."""


@scenario
def n_steps(adapter: AdapterClass, seed: int) -> DecodedRows:
    """A buffer with 3-step returns."""
    driver = BufferDriver(adapter, seed, options={"n_steps": N_STEPS, "gamma": GAMMA})
    driver.add_episodes([7] * 40, ("time limit", "crash"))
    return driver.rows(10)


@dataclass
class PrioritizedRows:
    """Rows before and after the first step of each episode gets 20 times the priority of other steps.

    Attributes:
        before: Rows before the priorities are set.
        after: Rows after the priorities are set.
        batch_changed: Keys of a batch that changed when later batches were sampled.
    """

    before: DecodedRows
    after: DecodedRows
    batch_changed: list[str]


@scenario
def priorities(adapter: AdapterClass, seed: int) -> PrioritizedRows:
    """Sampled transitions get the priority 20 if they are the first step of an episode, else 1."""
    driver = BufferDriver(adapter, seed, options={"prioritized": True})
    driver.add_episodes([4] * 40)
    first = driver.buffer.sample(128)
    copies = driver.read(first, 128)
    before = driver.rows(12)
    if "index" not in before.columns:
        raise BatchError("HB002", "the key index, since priorities are offered", "a dict without it")
    index = before.columns["index"]
    driver.buffer.update_priorities(index, np.where(before.step == 0, 20.0, 1.0))
    return PrioritizedRows(before, driver.rows(12), changed_keys(first, copies))
