"""The probe of whether a user's functions take tensors: two steps, asked for as arrays and as tensors.

A function that does not is asked with arrays on the host ever after, which is right everywhere, and slower
where batches are wanted on a GPU.
"""

from __future__ import annotations

import copy
import itertools
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces

from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.devices.tensor_records import TensorRecords
from her_wrappers.replay.relabeling.rewards import TOLERANCE
from her_wrappers.replay.storage.step_layout import GOALS
from her_wrappers.replay.storage.steps import Steps
from her_wrappers.replay.transfer import send
from her_wrappers.spaces import build_tree, leaf_spaces
from her_wrappers.trees import leaf_at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from her_wrappers.replay.relabeling.relabeling import Relabeling
    from her_wrappers.replay.storage.infos import InfoLayout
    from her_wrappers.replay.storage.step_layout import StepLayout
    from her_wrappers.trees import Tree

SEED = 0

INFO_KINDS = np.float64, np.int64, np.bool_

MOST_INFO_KEYS = 3
"""Of more, there are too many ways in which they may be of these kinds."""


class Answer(NamedTuple):
    """What a function answered, or the error that it raised, and whether it warned."""

    values: Any
    error: Exception | None
    warned: bool


def obstacle_of_infos(infos: InfoLayout) -> str | None:
    """Say why functions that get these infos are asked on the host; None if they may take tensors."""
    if infos.keys and infos.form == "list":
        return "info_format='list' makes a dict for each row"
    if len(infos.keys) > MOST_INFO_KEYS:
        return f"there are more than {MOST_INFO_KEYS} info_keys"
    return None


def obstacle(relabeling: Relabeling, samples: Sequence[Steps], device: torch.device) -> str | None:
    """Say which of a buffer's functions does not take tensors on a device, and why; None if all do.

    Args:
        relabeling: Asks the functions.
        samples: Steps to ask about, on the host; those about which arrays cannot be asked are left out.
        device: Where the tensors are.
    """
    if relabeling.asks_row_by_row:
        return "compute_terminated answers for single goals, or needs infos to answer at all"
    for name, question in relabeling.questions().items():
        reason = _obstacle_of(question, samples, device)
        if reason is not None:
            return reason if reason.startswith(name) else f"{name} {reason}"
    return None


def _obstacle_of(
    question: Callable[[Steps], Any], samples: Sequence[Steps], device: torch.device
) -> str | None:
    expected = [(steps, _ask(question, steps)) for steps in samples]
    known = [(steps, answer) for steps, answer in expected if answer.error is None]
    if not known:
        return f"cannot be tried out with arrays: {_described(expected[0][1].error)}"
    reasons = (_difference(question, *each, device) for each in known)
    return next((reason for reason in reasons if reason is not None), None)


def _difference(
    question: Callable[[Steps], Any], steps: Steps, expected: Answer, device: torch.device
) -> str | None:
    there = _on_device(steps, device)
    before = there.records.rows.clone(), there.desired.rows.clone()
    answer = _ask(question, there)
    if answer.error is not None:
        return _described(answer.error)
    if answer.warned and not expected.warned:
        return "warns where it gets tensors"
    if not all(map(torch.equal, before, (there.records.rows, there.desired.rows))):
        return "writes to what it is given"
    values = answer.values.cpu().numpy()
    if not np.allclose(expected.values, values, rtol=TOLERANCE, atol=TOLERANCE):
        return f"answers {values.tolist()} to tensors and {expected.values.tolist()} to arrays"
    return None


def _ask(question: Callable[[Steps], Any], steps: Steps) -> Answer:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            return Answer(question(steps), None, bool(told))
        except Exception as error:  # whatever a user's function raises
            return Answer(None, error, warned=False)


def _described(error: Exception | None) -> str:
    # What was answered wrongly has a sentence of its own, which begins with the function's name.
    return str(error) if "must return" in str(error) else f"raises {type(error).__name__}: {error}"


def _on_device(steps: Steps, device: torch.device) -> Steps:
    infos = None if steps.infos is None else TensorRecords.of(steps.infos, device)
    records, desired = (TensorRecords.of(each, device) for each in (steps.records, steps.desired))
    return Steps(send(steps.numbers.copy(), device), records, desired, infos)


def made_up_steps(layout: StepLayout) -> list[Steps]:
    """Return two steps with values that their spaces have, of which the first reaches its goal.

    What the infos hold shows with the first episode only. So there are these steps for each way in which
    they may be floats, whole numbers and bools, one a step.
    """
    rng, keys = np.random.default_rng(SEED), layout.infos.keys
    observations = _made_up(layout.observation_space, 3, rng)
    for path in leaf_spaces(layout.observation_space["desired_goal"]):
        achieved, desired = (leaf_at(observations, (key, *path), "observations", "") for key in GOALS)
        desired[:2] = achieved[1]
    flags = np.zeros(1, np.bool_)
    episodes = Episodes(
        observations=observations,
        actions=_made_up(layout.action_space, 2, rng),
        rewards=np.zeros(2),
        lengths=np.array([2]),
        terminated=flags,
        truncated=~flags,
    )
    numbers = rng.normal(0, 3, 2)
    return [
        layout.encode(
            replace(
                episodes, infos={key: numbers.astype(kind) for key, kind in zip(keys, kinds, strict=True)}
            )
        ).take(np.arange(2))
        for kinds in itertools.product(INFO_KINDS, repeat=len(keys))
    ]


def _made_up(space: spaces.Space[Any], rows: int, rng: np.random.Generator) -> Tree:
    leaves = {path: _leaf(leaf, rows, rng) for path, leaf in leaf_spaces(space).items()}
    return build_tree(space, leaves)


def _leaf(space: spaces.Space[Any], rows: int, rng: np.random.Generator) -> np.ndarray:
    if isinstance(space, spaces.Box):  # whose own samples may be too large to reckon with
        values = rng.normal(0, 3, (rows, *space.shape)).clip(space.low, space.high)
        return values.astype(space.dtype)
    private = copy.deepcopy(space)
    private.seed(SEED)
    return np.stack([np.asarray(private.sample(), private.dtype) for _ in range(rows)])
