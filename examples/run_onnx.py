"""Run a policy that ``her export RUN policy.onnx`` wrote; needs onnxruntime and NumPy only.

``python run_onnx.py policy.onnx`` prints the action for an observation of zeros.
"""

import json
import sys
from typing import Any

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
metadata = session.get_modelmeta().custom_metadata_map
dtypes = {"float": "float32", "double": "float64"}  # other types have the names of NumPy


def policy(observation: dict[str, Any]) -> Any:
    """Return the action for one observation, a dict with the inputs of the model as keys."""
    rows = {}
    for x in session.get_inputs():
        name = x.type.removeprefix("tensor(").removesuffix(")")
        rows[x.name] = np.asarray(observation[x.name], dtypes.get(name, name))[np.newaxis]
    return session.run(["action"], rows)[0][0]


observation = {x.name: np.zeros(x.shape[1:]) for x in session.get_inputs()}
print(metadata["env"], json.loads(metadata["action_space"]), policy(observation))
