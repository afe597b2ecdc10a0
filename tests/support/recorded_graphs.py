"""CUDA graphs simulated on the CPU: captured operations are recorded, not executed, and replayed later.

As on a GPU, tensors that are captured keep their memory, and replays read and write this memory. Numbers and
branches of Python are those of the capture.
"""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from her_agents.training import updates


def tensors_in(tree):
    return [each for each in tree_leaves(tree) if isinstance(each, torch.Tensor)]


class Recorder(TorchDispatchMode):
    """Records all operations, and the former values of memory that they change."""

    def __init__(self):
        super().__init__()
        self.operations, self.before = [], {}

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if "_local_scalar_dense" in func.name():
            raise RuntimeError("operation not permitted when stream is capturing")
        if func._schema.is_mutable:
            for each in tensors_in((args, kwargs)):
                self.before.setdefault(id(each), (each, each.detach().clone()))
        result = func(*args, **kwargs)
        self.operations.append((func, args, kwargs, result))
        return result


class Graph:
    """A `torch.cuda.CUDAGraph`."""

    def __init__(self):
        self.recorder, self.generators = Recorder(), []

    def register_generator_state(self, generator):
        self.generators.append(generator)

    def replay(self):
        with torch.no_grad():
            for func, args, kwargs, result in self.recorder.operations:
                new = func(*args, **kwargs)
                if not func._schema.is_mutable:
                    for old, values in zip(tensors_in(result), tensors_in(new), strict=True):
                        if old.data_ptr() != values.data_ptr():  # else a view
                            old.detach().copy_(values)


@contextmanager
def capture(graph, **options):
    """A `torch.cuda.graph`: on exit, memory and random generators have their former values."""
    states = [each.get_state() for each in graph.generators]
    with graph.recorder:
        yield
    for tensor, values in reversed(graph.recorder.before.values()):
        tensor.detach().copy_(values)
    for generator, state in zip(graph.generators, states, strict=True):
        generator.set_state(state)


def use(monkeypatch):
    """Let runs on the CPU use these graphs; return the list of the graphs that are captured."""
    made = []
    stream = SimpleNamespace(wait_stream=lambda other: None)
    names = {
        "Stream": lambda device: stream,
        "current_stream": lambda device: stream,
        "stream": lambda entered: nullcontext(),
        "get_sync_debug_mode": lambda: 0,
        "set_sync_debug_mode": lambda mode: None,
        "CUDAGraph": lambda: made.append(Graph()) or made[-1],
        "graph": capture,
    }
    for name, value in names.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(updates, "GRAPH_DEVICE", "cpu")
    return made
