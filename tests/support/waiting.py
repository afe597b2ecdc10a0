"""A detector of operations that wait for a device, for tests on the CPU."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class NothingWaits(TorchDispatchMode):
    """Raises an error for operations that wait for a device: those whose result or shape the host needs."""

    WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "_unique", "unique", "is_nonzero", "equal")

    @classmethod
    def _should_skip_dynamo(cls):  # else torch imports its compiler, which takes 10 seconds
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name in self.WAITING or (name == "_to_copy" and "device" in (kwargs or {})):
            raise AssertionError(f"{name} waits for the device")
        indices = args[1] if name in {"index", "index_put", "index_put_"} else ()
        if any(each is not None and each.dtype == torch.bool for each in indices):
            raise AssertionError("the shape of a boolean index depends on data")
        return func(*args, **kwargs or {})
