"""ONNX: write the policy of a run to a file for ONNX Runtime, which needs neither torch nor this package."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

import her_wrappers
from her_agents.training.checkpoints import agent_of, best_checkpoint, load_checkpoint
from her_wrappers.data.atomic import replacement
from her_wrappers.data.trees import leaves_by_path, map_tree, path_name
from her_wrappers.recording.space_json import space_from_json
from her_wrappers.support.arguments import require_suffix

if TYPE_CHECKING:
    from her_agents.algorithms.base import Agent

ONNX_SUFFIX = ".onnx"


def export_onnx(path: str | os.PathLike[str], out: str | os.PathLike[str]) -> None:
    """Write the policy of a checkpoint as an ONNX model.

    The inputs of the model are the keys of the observation that the agent reads for actions, with their
    dtypes and shapes and a leading axis of any length B. A part of a Dict or Tuple is an input with a name
    such as ``observation/camera``. The output ``action`` contains B actions of the environment's action
    space, computed as in `Agent.act` without exploration.
    The metadata of the model are strings: ``env``, ``algo``, ``env_kwargs``, ``observation_space`` and
    ``action_space`` (the last three as JSON), and the versions of ``her-toolkit`` and ``torch``. If the run
    used an agent of your own, its module is imported.

    Args:
        path: A checkpoint, a policy file, or the folder of a run, whose ``best.pt`` is used.
        out: The file to write; its name ends with ``.onnx``.

    Raises:
        ImportError: onnx or onnxscript is not installed.
        OSError: ``out`` cannot be written.
        ValueError: The checkpoint cannot be used, ``out`` has another suffix, or the exported code of the
            agent works only for a fixed B.

    Example:
        ``export_onnx("runs/PointReach-v0-sac-0", "reach.onnx")``
    """
    require_suffix("out", out, [ONNX_SUFFIX])
    try:
        import onnx  # noqa: PLC0415 - an extra
        import onnxscript  # noqa: F401, PLC0415 - torch imports it later, with an unclear error
    except ImportError as error:
        fix = 'run: pip install "her-toolkit[onnx]"'
        raise ImportError(f"the export needs onnx and onnxscript; {fix}", name="onnx") from error
    file = best_checkpoint(path)
    checkpoint = load_checkpoint(file)
    config, agent = checkpoint["config"], agent_of(checkpoint, file)
    space: Any = space_from_json(checkpoint["spaces"][0])
    samples = {key: space[key].sample() for key in agent.inputs.keys}
    # Two rows, since torch treats an axis of length 1 as constant.
    rows = map_tree(lambda value: torch.as_tensor(np.stack([value] * 2)), samples)
    batch = torch.export.Dim("batch")
    with _without_warnings():
        program: Any = torch.onnx.export(
            _Policy(agent).eval(),
            kwargs={"observations": rows},
            input_names=list(map(path_name, leaves_by_path(rows))),
            output_names=["action"],
            dynamic_shapes={"observations": map_tree(lambda _: {0: batch}, rows)},
            dynamo=True,
            verbose=False,
        )
    model = program.model_proto
    if model.graph.input[0].type.tensor_type.shape.dim[0].dim_value:  # torch fixed the axis without an error
        raise ValueError(
            "the exported model works for one batch size only, since choose() of the agent makes the batch "
            "size a constant; use tensor.shape[0] instead of len(tensor) in choose()"
        )
    spaces = zip(("observation_space", "action_space"), map(json.dumps, checkpoint["spaces"]), strict=True)
    versions = {"her-toolkit": her_wrappers.__version__, "torch": torch.__version__}
    described = {"env": config["env"], "env_kwargs": json.dumps(config["env_kwargs"]), "algo": config["algo"]}
    onnx.helper.set_model_props(model, described | dict(spaces) | versions)
    with replacement(out) as written:
        written.write(model.SerializeToString())


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Hide warnings and log messages of torch about its own code and about missing torchvision."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


class _Policy(nn.Module):
    """Computes the actions of an agent without exploration."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self._agent = agent

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        return self._agent.choose(self._agent.inputs(observations), explore=False)
