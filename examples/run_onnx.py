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
dtypes = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(uint8)": np.uint8}
dtypes |= {"tensor(int8)": np.int8, "tensor(bool)": np.bool_}


def policy(observation: dict[str, Any]) -> Any:
    """Return the action for one observation, a dict with the inputs of the model as keys."""
    rows = {x.name: np.asarray(observation[x.name], dtypes[x.type])[np.newaxis] for x in session.get_inputs()}
    return session.run(["action"], rows)[0][0]


observation = {x.name: np.zeros(x.shape[1:]) for x in session.get_inputs()}
print(metadata["env"], json.loads(metadata["action_space"]), policy(observation))
