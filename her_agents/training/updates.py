"""Updates of the agent from sampled batches; on a GPU as CUDA graphs.

An update of SAC launches about 450 operations, and sampling from a `DeviceReplayBuffer` about 110. For small
networks, Python needs longer to launch them than a GPU needs to compute them. A CUDA graph launches all of
them at once.
"""

from __future__ import annotations

import inspect
import warnings
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from her_agents.training.logs import Meter
from her_wrappers import DeviceReplayBuffer
from her_wrappers.goals.real_robot import INTERVENED
from her_wrappers.replay.tensors import to_tensor
from her_wrappers.support.user_warning import warn_user

if TYPE_CHECKING:
    from her_agents.algorithms.base import Agent
    from her_agents.training.config import Config
    from her_wrappers import Batch

MOST_UPDATES = 64  # that use parts of one sample
MOST_GRAPHS = 16  # of one agent
EAGER_CALLS = 3  # before the first graph, as torch needs it
GRAPH_DEVICE = "cuda"  # type of the devices that have graphs


class Learner:
    """Updates an agent; each call makes K updates, where K is ``updates_per_call``.

    For a `DeviceReplayBuffer`, K is the number of updates after a step of all environments. They share one
    sample, which is split into K batches. For other buffers, K is 1.
    """

    def __init__(self, agent: Agent, buffer: Any, config: Config, meter: Meter) -> None:
        self._agent, self._buffer, self._config, self._meter = agent, buffer, config, meter
        self._is_on_device = isinstance(buffer, DeviceReplayBuffer)
        due = round(config.updates_per_step * config.num_envs) if self._is_on_device else 1
        self.updates_per_call = min(max(1, due), MOST_UPDATES)
        self._intervened = INTERVENED in buffer.info_keys  # by a person, whom the agent imitates
        imitates = bool(config.offline or config.demos) or self._intervened
        self._imitates = imitates and "imitate" in inspect.signature(agent.update).parameters
        if imitates and not self._imitates and getattr(agent.options, "bc_weight", False):
            raise TypeError(
                f"bc_weight must be 0, since {type(agent).__name__}.update has no parameter 'imitate', got "
                f"{agent.options.bc_weight}; add this parameter, or set bc_weight=0"
            )
        self._calls = 0
        self._batch: Any = None  # the tensors that graphs read, for a buffer in memory
        # By the phase of the agent's cycle: a graph, its measurements, and its TD errors
        self._graphs: dict[int, tuple[torch.cuda.CUDAGraph, Meter, torch.Tensor]] = {}
        self._in_graph = config.updates_in_graph != "never" and agent.device.type == GRAPH_DEVICE
        if config.updates_in_graph == "always" and not self._in_graph:
            self._refuse(f"the device is {agent.device}, and graphs need CUDA")
        if self._in_graph and agent.update_cycle > MOST_GRAPHS:
            self._refuse(
                f"its operations repeat after {agent.update_cycle} updates (policy_delay, "
                f"target_update_interval), and at most {MOST_GRAPHS} graphs are made"
            )

    def __call__(self) -> None:
        """Sample once, update the agent with K parts of the sample, and update the priorities."""
        batch: Any = None
        if not self._is_on_device:
            batch = self._buffer.sample(self._config.batch_size)
            self._measure(batch, self._meter)
        if not self._in_graph:
            self._update(batch, self._meter)
        else:
            self._update_in_graph(batch)
        if self._config.prioritized:
            self._buffer.update_priorities(batch.index, self._agent.td_errors)

    def _measure(self, batch: Batch[Any], meter: Meter) -> None:
        """Measure the rewards of a batch. With clipped targets, they must fit, and 0 means success."""
        rewards, lowest = batch.rewards, -self._config.n_steps
        meter.add({"reward_mean": rewards.mean()})
        if not self._config.clip_targets:
            return
        successes = (rewards == 0) & batch.relabeled
        meter.add({"relabeled_success": successes.sum()}, batch.relabeled.sum())
        if self._is_on_device:  # the run reads it after the epoch
            meter.add({"unclippable": ((rewards < lowest) | (rewards > 0)).any()})
        else:
            require_clippable(rewards, -lowest)

    def _update(self, batch: Batch[Any] | None, meter: Meter) -> None:
        """Update the agent K times, from parts of ``batch`` or, if it is None, of a new sample."""
        if batch is None:
            batch = self._buffer.sample(self.updates_per_call * self._config.batch_size)
            self._measure(batch, meter)
        for i in range(count := self.updates_per_call):
            # Relabeled rows come first, so each update takes every count-th row.
            rows = batch if count == 1 else batch.map(itemgetter(slice(i, None, count)))
            imitate = {}
            if self._imitates:
                imitate["imitate"] = rows.index >= 0 if self._config.offline else rows.is_demonstration
                if self._intervened:
                    own = ~rows.is_demonstration
                    intervened = self._buffer.infos(rows.index[own])[INTERVENED]
                    imitate["imitate"] = np.array(imitate["imitate"])
                    imitate["imitate"][own] = intervened.astype(bool)
            meter.add(self._agent.update(rows, **imitate))

    def _update_in_graph(self, batch: Batch[Any] | None) -> None:
        """Do the same as `_update`: in the first calls without a graph, then by a CUDA graph."""
        if batch is not None:
            batch = self._copied(batch)
        agent, self._calls = self._agent, self._calls + 1
        if self._calls <= EAGER_CALLS:
            self._warm_up(batch)
            return
        before = agent.updates
        phase = before % agent.update_cycle
        if phase not in self._graphs:
            self._graphs[phase] = self._capture(batch)
        graph, measured, errors = self._graphs[phase]
        graph.replay()
        agent.updates = before + self.updates_per_call
        agent._errors = errors  # noqa: SLF001 - as `update` would set it
        self._meter.merge(measured)

    def _copied(self, batch: Batch[Any]) -> Batch[Any]:
        """Copy ``batch`` to the tensors that graphs read, and return them."""
        on_device = batch.map(lambda values: to_tensor(values, self._agent.device))
        if self._batch is None:
            self._batch = on_device.map(torch.clone)
        to: list[torch.Tensor] = []
        new: list[torch.Tensor] = []
        self._batch.map(to.append)
        on_device.map(new.append)
        torch._foreach_copy_(to, new)
        return self._batch  # type: ignore[no-any-return]

    def _warm_up(self, batch: Batch[Any] | None) -> None:
        """Update without a graph; in call `EAGER_CALLS`, find operations that wait for the device."""
        device = self._agent.device
        if self._calls == 1:
            for optimizer in self._agent.modules.values():
                for group in getattr(optimizer, "param_groups", ()):
                    group.update(lr=torch.tensor(float(group["lr"]), device=device), capturable=True)
        stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        current = torch.cuda.current_stream(device)
        stream.wait_stream(current)
        with torch.cuda.stream(stream), warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            mode = torch.cuda.get_sync_debug_mode()
            torch.cuda.set_sync_debug_mode("warn" if self._calls == EAGER_CALLS else mode)
            try:
                self._update(batch, self._meter)
            finally:
                torch.cuda.set_sync_debug_mode(mode)
        current.wait_stream(stream)
        for each in found:
            if "synchronizing" in str(each.message) and self._in_graph:
                self._refuse(f"line {each.lineno} of {each.filename} waits for the device")
            elif "synchronizing" not in str(each.message):
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)

    def _capture(self, batch: Batch[Any] | None) -> tuple[torch.cuda.CUDAGraph, Meter, torch.Tensor]:
        """Capture the updates; return the graph, and the measurements and TD errors that it writes."""
        graph, measured = torch.cuda.CUDAGraph(), Meter()
        graph.register_generator_state(self._agent.generator)
        if isinstance(self._buffer, DeviceReplayBuffer):
            graph.register_generator_state(self._buffer.generator)
        try:
            # Only this thread must not wait: a simulator may have others.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._update(batch, measured)
        except RuntimeError as error:
            error.add_note(
                f"{type(self._agent).__name__}.update, or a function of the buffer, cannot be captured in a "
                "CUDA graph; the innermost line above that is in your code is the cause; change it, or pass "
                "updates_in_graph='never' (--updates-in-graph never)"
            )
            raise
        return graph, measured, self._agent._errors  # noqa: SLF001 - which replays write

    def _refuse(self, reason: str) -> None:
        """Stop using graphs, with a warning; raise ValueError if ``updates_in_graph`` is ``"always"``."""
        self._in_graph = False
        text = f"{type(self._agent).__name__}.update cannot be captured in a CUDA graph: {reason}"
        if self._config.updates_in_graph == "always":
            raise ValueError(f"{text}; change this, or pass updates_in_graph='auto'")
        warn_user(f"{text}; updates are made without graphs, which is slower")


def require_clippable(rewards: Any, n_steps: int = 1) -> None:
    """Raise ValueError if sums of at most ``n_steps`` rewards lie outside [-n_steps, 0]."""
    least, largest = (rewards, rewards) if isinstance(rewards, float) else (rewards.min(), rewards.max())
    if least < -n_steps or largest > 0:
        got = f"{least:g}" if least == largest else f"values from {least:g} to {largest:g}"
        raise not_clippable(got, n_steps)


def not_clippable(got: str, n_steps: int) -> ValueError:
    """Return the error for rewards, or sums of at most ``n_steps`` of them, outside [-n_steps, 0]."""
    values = "each reward" if n_steps == 1 else f"each sum of {n_steps} rewards"
    return ValueError(
        f"clip_targets=True needs {values} to be between {-n_steps} and 0, got {got}; pass "
        "clip_targets=False (--no-clip-targets)"
    )
