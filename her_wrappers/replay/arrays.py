"""NumPyArrays: the operations of a buffer for which NumPy and torch need different calls.

`her_wrappers.replay.torch_arrays.TorchArrays` has the same operations for tensors. All other code of the
buffer is the same for arrays and for tensors.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np


class NumPyArrays:
    """Operations on NumPy arrays."""

    is_torch = False
    # take(matrix, rows, 0, None, "wrap"): copies of rows, in the shape of `rows`. With n rows, indices from
    # -n to 2n - 1 are valid; mode "wrap" takes three quarters of the time of the default mode.
    take: Any = staticmethod(np.ndarray.take)
    zeros: Any = staticmethod(np.zeros)  # zeros(shape, dtype), or MemoryError
    copy: Any = staticmethod(np.ndarray.copy)
    stack: Any = staticmethod(np.array)  # stack((before, after)): (2, B) of two (B,) arrays
    concatenate: Any = staticmethod(np.concatenate)  # concatenate((before, after)), along the first axis
    fill: Any = staticmethod(np.putmask)  # fill(values, mask, value), in place
    repeat: Any = staticmethod(np.ndarray.repeat)  # repeat(values, count, axis)
    assign: Any = staticmethod(operator.setitem)  # assign(matrix, (rows, columns), array)
    from_numpy: Any = staticmethod(np.asarray)  # the result may share memory with the array
    to_numpy: Any = staticmethod(np.asarray)
    float32: Any = staticmethod(lambda values: values.astype(np.float32))
