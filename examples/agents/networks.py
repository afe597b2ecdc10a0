"""What the agents are made of: goal-conditioned inputs, networks, actions, and how an agent is saved.

An agent's own file, this one and ``normalizer.py`` are all there is to copy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from examples.agents.normalizer import Normalizer

if TYPE_CHECKING:
    from her_wrappers import Batch

SMALLEST_IMAGE = 20  # pixels; below, nothing is left after the convolutions


class Seen(NamedTuple):
    """What networks get to see of B observations.

    Attributes:
        vectors: (B, D) float32, normalised; D may be 0.
        images: (B, C, H, W) float32 in [-1, 1], or None.
    """

    vectors: torch.Tensor
    images: torch.Tensor | None


class GoalInputs(nn.Module):
    """Put observation and desired goal side by side: vectors end to end, images as channels of one.

    Vectors are normalised by what `learn` was shown, the goals by one statistic of achieved and desired ones.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``.

    Raises:
        TypeError: Observations or goals are neither vectors nor images.
    """

    def __init__(self, observation_space: spaces.Dict) -> None:
        super().__init__()
        shapes = {key: _shape(key, observation_space[key]) for key in ("observation", "desired_goal")}
        images = {key: _channels_first(shape) for key, shape in shapes.items() if len(shape) == 3}
        if len({shape[1:] for shape in images.values()}) > 1:
            raise TypeError(f"images must be of one size to be laid over each other, got {observation_space}")
        self._single_ndim = len(shapes["desired_goal"])
        self._channels_last = {key for key in images if images[key] != shapes[key]}
        self._image_keys = list(images)
        self._by_key = {key: Normalizer(shapes[key][0]) for key in shapes if key not in images}
        self.normalizers = nn.ModuleDict(self._by_key)  # which makes them part of the state
        self.width = sum(shapes[key][0] for key in self._by_key)
        sizes = list(images.values())
        self.image_shape = (sum(size[0] for size in sizes), *sizes[0][1:]) if sizes else None

    def as_batch(self, observation: Mapping[str, Any]) -> tuple[dict[str, torch.Tensor], bool]:
        """Return tensors of one observation or of N, with a leading axis, and whether it was one."""
        keys = [*self._by_key, *self._image_keys]
        tensors = {key: torch.tensor(np.asarray(observation[key])) for key in keys}
        single = tensors["desired_goal"].ndim == self._single_ndim
        return {key: tensor[None] if single else tensor for key, tensor in tensors.items()}, single

    def learn(self, observations: Mapping[str, torch.Tensor]) -> None:
        """Take B observations into account."""
        for key, normalizer in self._by_key.items():
            values = _rows(observations[key])
            if key == "desired_goal":
                values = torch.cat([values, _rows(observations["achieved_goal"])])
            normalizer.learn(values)

    def forward(self, observations: Mapping[str, torch.Tensor]) -> Seen:
        """Return what networks get of B observations."""
        vectors = [normalizer(_rows(observations[key])) for key, normalizer in self._by_key.items()]
        images = [self._image(key, observations[key]) for key in self._image_keys]
        count = len(observations["desired_goal"])
        return Seen(
            torch.cat(vectors, dim=1) if vectors else torch.empty(count, 0),
            torch.cat(images, dim=1).float() / 127.5 - 1 if images else None,
        )

    def _image(self, key: str, image: torch.Tensor) -> torch.Tensor:
        return image.permute(0, 3, 1, 2) if key in self._channels_last else image


class Network(nn.Module):
    """Fully connected layers with ReLU between them; images go through two convolutions before.

    Args:
        inputs: What it sees.
        hidden: Units of each hidden layer.
        outputs: Numbers that come out.
        num_actions: Numbers of an action that goes in too, for a critic.
    """

    def __init__(
        self, inputs: GoalInputs, hidden: Sequence[int], outputs: int, *, num_actions: int = 0
    ) -> None:
        super().__init__()
        self.eyes = None if inputs.image_shape is None else _convolutions(inputs.image_shape[0])
        width = inputs.width + num_actions
        if self.eyes is not None and inputs.image_shape is not None:
            width += self.eyes(torch.zeros(1, *inputs.image_shape)).shape[1]
        layers: list[nn.Module] = []
        for units in hidden:
            layers += [nn.Linear(width, units), nn.ReLU()]
            width = units
        self.layers = nn.Sequential(*layers, nn.Linear(width, outputs))

    def forward(self, seen: Seen, actions: torch.Tensor | None = None) -> torch.Tensor:
        """Return (B, outputs)."""
        parts = [seen.vectors] if self.eyes is None else [seen.vectors, self.eyes(seen.images)]
        parts += [] if actions is None else [actions]
        result: torch.Tensor = self.layers(torch.cat(parts, dim=1))
        return result


class TwinCritics(nn.Module):
    """Two critics that differ in their weights.

    Args:
        inputs: What they see.
        hidden: Units of each hidden layer.
        num_actions: Numbers of an action.
    """

    def __init__(self, inputs: GoalInputs, hidden: Sequence[int], num_actions: int) -> None:
        super().__init__()
        self.first, self.second = (Network(inputs, hidden, 1, num_actions=num_actions) for _ in range(2))

    def forward(self, seen: Seen, actions: torch.Tensor) -> torch.Tensor:
        """Return the values by each, (2, B)."""
        return torch.stack([critic(seen, actions).squeeze(1) for critic in (self.first, self.second)])


class BoxActions:
    """Between the actions of a Box and those of a network, which lie in [-1, 1].

    Args:
        space: Actions of one environment.
        agent: Who asks, for the message.

    Raises:
        TypeError: The space is no Box, or has no bounds.
    """

    def __init__(self, space: spaces.Space[Any], agent: str) -> None:
        if not isinstance(space, spaces.Box):
            raise TypeError(f"{agent} needs actions in a Box, got {space}; dqn is for Discrete ones")
        if not space.is_bounded():
            raise TypeError(f"{agent} needs actions with bounds, got {space}; wrap it in RescaleAction")
        self.count = math.prod(space.shape)
        self._space = space
        self._low = torch.tensor(space.low.reshape(-1), dtype=torch.float32)
        half = (torch.tensor(space.high.reshape(-1), dtype=torch.float32) - self._low) / 2
        self._half = half.clamp(min=torch.finfo(torch.float32).tiny)  # what is fixed is divided by it, too

    def to_env(self, actions: torch.Tensor) -> np.ndarray:
        """Return (B, A) actions of a network as the environment takes them."""
        scaled = (self._low + (actions + 1) * self._half).numpy().reshape(-1, *self._space.shape)
        # Rounding may carry an action over a bound, which some environments refuse.
        return scaled.clip(self._space.low, self._space.high).astype(self._space.dtype)

    def from_env(self, actions: torch.Tensor) -> torch.Tensor:
        """Return actions of the environment as a network gives them, (B, A)."""
        return (_rows(actions) - self._low) / self._half - 1


class Agent:
    """What all agents do alike: act for one environment or many, and be saved.

    A subclass chooses actions, learns from batches, and lists in ``_parts`` what has a ``state_dict``.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``.
        seed: Seeds the exploration.

    Attributes:
        td_errors: (B,) sizes, of the latest update; ``buffer.update_priorities`` takes them.
    """

    def __init__(self, observation_space: spaces.Dict, seed: int) -> None:
        self.td_errors = np.zeros(0, np.float32)
        self._inputs = GoalInputs(observation_space)
        self._generator = torch.Generator().manual_seed(seed)
        self._parts: dict[str, Any] = {"inputs": self._inputs}

    @torch.no_grad()
    def act(self, observation: Mapping[str, Any], *, explore: bool = False) -> Any:
        """Return the action for one observation, or the actions for N of them.

        Args:
            observation: As an environment or a vector environment gives it.
            explore: Whether to try something else now and then.
        """
        tensors, single = self._inputs.as_batch(observation)
        actions = self._choose(self._inputs(tensors), explore)
        return actions[0] if single else actions

    def _choose(self, seen: Seen, explore: bool) -> np.ndarray:
        raise NotImplementedError

    def update(self, batch: Batch) -> dict[str, float]:
        """Learn from B transitions.

        Returns:
            Losses, and the mean of the values, by name.
        """
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to go on, for ``torch.save``."""
        state = {name: part.state_dict() for name, part in self._parts.items()}
        return state | {"generator": self._generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        for name, part in self._parts.items():
            part.load_state_dict(state[name])
        self._generator.set_state(state["generator"])


@contextmanager
def seeded_weights(seed: int) -> Iterator[None]:
    """Make networks inside of this block whose weights depend on the seed; torch's own generator stays."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def descend(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    """Take one step of gradient descent with the optimizer's parameters; no others get gradients."""
    optimizer.zero_grad()
    learned = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    loss.backward(inputs=learned)  # type: ignore[no-untyped-call] # torch does not annotate it
    optimizer.step()


@torch.no_grad()
def follow(slow: nn.Module, fast: nn.Module, tau: float) -> None:
    """Move the parameters of one network by a share of the way towards those of another."""
    torch._foreach_lerp_(list(slow.parameters()), list(fast.parameters()), tau)


def explored(actions: torch.Tensor, epsilon: float, noise: float, generator: torch.Generator) -> torch.Tensor:
    """Add Gaussian noise to (B, A) actions in [-1, 1], and replace a share of the rows by uniform ones."""
    noisy = actions + noise * torch.randn(actions.shape, generator=generator)
    anything = 2 * torch.rand(actions.shape, generator=generator) - 1
    chance = torch.rand(len(actions), 1, generator=generator) < epsilon
    return torch.where(chance, anything, noisy.clamp(-1, 1))


def target_bounds(gamma: float, clip: bool) -> tuple[float, float]:
    """Return the least and the largest return that rewards from -1 to 0 can give, or no bounds."""
    return (-1 / (1 - gamma), 0.0) if clip else (-math.inf, math.inf)


def _rows(values: torch.Tensor) -> torch.Tensor:
    return values.reshape(len(values), -1).float()


def _shape(key: str, space: spaces.Space[Any]) -> tuple[int, ...]:
    """Return the shape of an observation or a goal.

    Raises:
        TypeError: It is neither a vector nor an image.
    """
    if isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        shape = tuple(space.shape)
        if len(shape) == 1:
            return shape
        is_image = len(shape) == 3 and space.dtype == np.uint8
        if is_image and min(_channels_first(shape)[1:]) >= SMALLEST_IMAGE:
            return shape
    raise TypeError(
        f"{key} must be a vector (Box, MultiBinary, MultiDiscrete) or a uint8 image of at least "
        f"{SMALLEST_IMAGE} x {SMALLEST_IMAGE} pixels, got {space}; a wrapper can make it one"
    )


def _channels_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[2], *shape[:2]) if shape[2] < shape[0] else shape


def _convolutions(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 16, kernel_size=8, stride=4),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=4, stride=2),
        nn.ReLU(),
        nn.Flatten(),
    )
