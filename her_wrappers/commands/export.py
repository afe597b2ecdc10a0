"""``her export``: write the policy of a run as ONNX, or as a small policy file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from her_wrappers.commands import terminal
from her_wrappers.support.arguments import require_suffix


def export(
    run: Positional[Annotated[str, arg(metavar="RUN")]],
    out: Positional[Annotated[Path, arg(metavar="FILE")]],
) -> None:
    """Write the policy of a run as .onnx for other programs, or as .policy for `her watch` and `load_agent`.

    An ONNX model needs only onnxruntime and NumPy. Its inputs are the observation keys that the agent reads.
    Its output is the action in the units of the environment, without exploration.

    For example:

    - her export runs/PointReach-v0-sac-0 reach.onnx
    - her export fetch_push push.onnx
    - her export runs/PointReach-v0-sac-0 reach.policy

    Args:
        run: Folder of a run (its best.pt is used), a checkpoint, a policy file, or the name of a recipe.
        out: File to write, which ends in .onnx or .policy.
    """
    from her_agents.recipes import read_recipe, recipe_names
    from her_agents.results.onnx_export import ONNX_SUFFIX, export_onnx
    from her_agents.training.checkpoints import POLICY_SUFFIX, best_checkpoint, export_policy

    with terminal.exits_with(2, ValueError):
        require_suffix("FILE", out, [ONNX_SUFFIX, POLICY_SUFFIX])
    is_recipe = run in recipe_names() and not Path(run).exists()
    path = best_checkpoint(read_recipe(run).policy if is_recipe else run)
    with terminal.exits_with(2, ImportError):
        (export_onnx if out.suffix == ONNX_SUFFIX else export_policy)(path, out)
    print(f"{out}: the policy of {path}")
