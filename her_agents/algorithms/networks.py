"""Networks for goal environments: normalized inputs, fully connected layers, and convolutions for images."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from her_wrappers.data.spaces import leaf_spaces
from her_wrappers.data.trees import map_tree, path_name
from her_wrappers.goals.action_masks import MASK
from her_wrappers.goals.interface import OBSERVATION_KEYS

if TYPE_CHECKING:
    from her_wrappers import Batch
    from her_wrappers.data.trees import Path

LARGEST = 5.0  # absolute value of a normalized component
LEAST_DEVIATION = 0.01  # of a component, which may be constant
MIN_IMAGE_SIZE = 20  # [pixels]; the convolutions have no output for smaller images


class NetworkInput(NamedTuple):
    """The input of a network: B observations with their desired goals."""

    vectors: torch.Tensor  # (B, D) float32, normalized; D may be 0
    images: tuple[torch.Tensor, ...] = ()  # for each encoder (B, C, H, W) float32 in [-1, 1]
    critic: NetworkInput | None = None  # further input of critics, if the agent has critic_keys
    mask: torch.Tensor | None = None  # (B, number of actions) bool, the valid Discrete actions; None for all


class Normalizer:
    """Normalizes vectors by the running mean and standard deviation of each component.

    Args:
        width: Length of a vector, D.
        num_goals: Length of a goal, G. The last G components of each vector are the desired goal. They are
            normalized by common statistics of desired and achieved goals, so `update` also takes achieved
            goals.
        device: Device of the statistics and of the vectors.
    """

    def __init__(self, width: int, num_goals: int = 0, device: str | torch.device = "cpu") -> None:
        # Number of vectors so far: a tensor, since a CUDA graph would repeat the number of its capture.
        self.count = torch.zeros((), dtype=torch.int64, device=device)
        # (2, D + G): the sums of the columns over all arguments of `update`, and the sums of their squares
        self.sums = torch.zeros(2, width + num_goals, dtype=torch.float64, device=device)
        # (D,) float32: means and reciprocal standard deviations
        self.shift, self.scale = torch.zeros(width, device=device), torch.ones(width, device=device)
        average = torch.eye(width + num_goals, width, dtype=torch.float64)  # goals: mean of both values
        average[width - num_goals :, width - num_goals :] = torch.eye(num_goals).repeat(2, 1) / 2
        self._average = average.to(device)  # (D + G, D)

    def update(self, values: torch.Tensor) -> None:
        """Add B vectors (B, D), followed by their achieved goals (B, G), to the statistics."""
        values = values.double()
        self.count += len(values)
        self.sums += torch.stack([values, values.square()]).sum(dim=1)
        self._refresh()

    def _refresh(self) -> None:
        mean, square = (self.sums @ self._average).div_(self.count)
        # In place, since CUDA graphs read and write the same memory each time.
        self.shift.copy_(mean)
        self.scale.copy_(square.addcmul_(mean, mean, value=-1).clamp_(min=LEAST_DEVIATION**2).rsqrt_())

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Normalize (..., D) float32 vectors."""
        return (values - self.shift).mul_(self.scale).clamp_(-LARGEST, LARGEST)

    def state_dict(self) -> dict[str, Any]:
        """Return the statistics, for ``torch.save``."""
        return {"count": int(self.count), "sums": self.sums.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the statistics."""
        self.count.fill_(state["count"])
        self.sums.copy_(state["sums"])
        if state["count"]:
            self._refresh()


class GoalInputs:
    """Converts observations to `NetworkInput`: concatenated vectors, and images.

    An observation or a goal is a vector, an image, or a Dict or Tuple of these. Each image has its own
    encoder, but an image of the desired goal is stacked on the channels of the image at the same path in
    ``observation`` if both have the same height and width. Vectors are normalized by statistics,
    which achieved and desired goals have in common.

    ``num_actions`` is the number of Discrete actions, or 0: with Discrete actions, the mask of valid actions
    at the key ``action_mask`` is read too, if the space has it. ``random_shift`` is the largest shift of the
    images of a batch, in pixels; pixels at the border are repeated. ``generator`` draws the shifts.

    Attributes:
        keys: Keys of the observations that are needed to choose actions.
        critic: `GoalInputs` of ``critic_keys``; None without such keys.
        normalizer: Normalizes the concatenated vectors.
        width: Length of the concatenated vectors, D.
        image_shapes: (C, H, W) of the input of each encoder.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        device: str | torch.device = "cpu",
        *,
        keys: Sequence[str] = ("observation", "desired_goal"),
        critic_keys: Sequence[str] = (),
        num_actions: int = 0,
        random_shift: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        self.device = torch.device(device)
        self._shift, self._generator = random_shift, generator
        shapes = {path: shape for key in keys for path, shape in _shapes(key, observation_space).items()}
        self._probe, shape = next(reversed(shapes.items()))
        self._single_ndim = len(shape)
        vectors = [path for path in shapes if len(shapes[path]) == 1]
        goals = [path for path in vectors if path[0] == "desired_goal"]
        self._vector_paths = [path for path in vectors if path not in goals] + goals
        self._achieved_paths = [("achieved_goal", *path[1:]) for path in goals]
        self.width = sum(shapes[path][0] for path in vectors)
        num_goals = sum(shapes[path][0] for path in goals)
        self.normalizer = Normalizer(self.width, num_goals, device)
        images = {path: _channels_first(shape) for path, shape in shapes.items() if len(shape) == 3}
        self._channels_last = {path for path in images if images[path] != shapes[path]}
        stacks: dict[Any, list[Path]] = {}
        for path, shape in images.items():
            is_pair = path[0] in {"observation", "desired_goal"}
            stacks.setdefault((path[1:], shape[1:]) if is_pair else path, []).append(path)
        self._stacks = list(stacks.values())
        self.image_shapes = [
            (sum(images[path][0] for path in paths), *images[paths[0]][1:]) for paths in self._stacks
        ]
        self.critic: GoalInputs | None = None
        if critic_keys:
            shift: Any = {"random_shift": random_shift, "generator": generator}
            self.critic = GoalInputs(observation_space, device, keys=critic_keys, **shift)
        self._has_mask = num_actions > 0 and MASK in observation_space.spaces
        if self._has_mask and observation_space[MASK].shape != (num_actions,):
            raise TypeError(
                f"{MASK!r} must have one value for each action, so the shape ({num_actions},), got "
                f"{observation_space[MASK]}; correct the space, or rename the key if it means something else"
            )
        self.keys = (*keys, *[MASK] * self._has_mask)

    def as_batch(self, observation: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Return the arrays of an observation with a leading batch axis, and whether this axis was added."""
        if missing := [key for key in self.keys if key not in observation]:
            raise ValueError(
                f"the observation must have the keys {', '.join(map(repr, self.keys))}, but lacks "
                f"{missing[0]!r}; pass the whole observation of the environment"
            )
        arrays = map_tree(np.asarray, {key: observation[key] for key in self.keys})
        is_single = _leaf(arrays, self._probe).ndim == self._single_ndim
        return map_tree(lambda array: array[None], arrays) if is_single else arrays, is_single

    def of_batch(self, batch: Batch) -> tuple[NetworkInput, NetworkInput]:
        """Return the inputs for the B observations of a batch, and the inputs for its next observations.

        First, the observations, but not the next observations, are added to the statistics of the normalizer.
        """
        inputs = self(batch.observations, update=True, shift=True)
        return inputs, self(batch.next_observations, shift=True)

    def __call__(
        self, observations: Mapping[str, Any], *, update: bool = False, shift: bool = False
    ) -> NetworkInput:
        """Return the network input for B observations, which are arrays or tensors.

        Without the ``critic_keys``, critics cannot use the result. ``update`` first adds the observations to
        the statistics of the normalizer; ``shift`` shifts images randomly.
        """
        vectors = self.normalizer(self._vectors(observations, update=update))
        images = tuple(self._stacked(observations, paths, shift=shift) for paths in self._stacks)
        critic = mask = None
        if self.critic is not None and all(key in observations for key in self.critic.keys):
            critic = self.critic(observations, update=update, shift=shift)
        if self._has_mask:
            mask = torch.as_tensor(_leaf(observations, (MASK,)), device=self.device).bool()
        return NetworkInput(vectors, images, critic, mask)

    def _vectors(self, observations: Mapping[str, Any], *, update: bool) -> torch.Tensor:
        """Return all vectors, concatenated, (B, D); if ``update`` is True, first update the normalizer."""
        paths = self._vector_paths + (self._achieved_paths if update else [])
        if not paths:
            count = _leaf(observations, self._probe).shape[0]  # unlike len(), may vary in an exported model
            return torch.empty(count, 0, dtype=torch.float32, device=self.device)
        # Concatenated before they are moved to the device, since each copy to a GPU takes time.
        rows = torch.cat([torch.as_tensor(_leaf(observations, path)) for path in paths], dim=1)
        rows = rows.to(self.device, torch.float32)
        if update:
            self.normalizer.update(rows)
        return rows[:, : self.width]

    def _stacked(
        self, observations: Mapping[str, Any], paths: Sequence[Path], *, shift: bool
    ) -> torch.Tensor:
        """Return the images at ``paths``, stacked along their channels, (B, C, H, W) in [-1, 1]."""
        images = []
        for path in paths:
            image = torch.as_tensor(_leaf(observations, path), device=self.device)
            images.append(image.permute(0, 3, 1, 2) if path in self._channels_last else image)
        stacked = torch.cat(images, dim=1)
        return (self._shifted(stacked) if shift and self._shift else stacked).float() / 127.5 - 1

    def _shifted(self, images: torch.Tensor) -> torch.Tensor:
        """Shift each of (B, C, H, W) images randomly, as by padding and cropping (arXiv 2004.13649)."""
        count, _, height, width = images.shape
        random: Any = {"generator": self._generator, "device": self.device}
        down, right = torch.randint(-self._shift, self._shift + 1, (2, count, 1), **random)
        rows = (torch.arange(height, device=self.device) + down).clamp(0, height - 1)
        columns = (torch.arange(width, device=self.device) + right).clamp(0, width - 1)
        which = torch.arange(count, device=self.device)[:, None, None]
        return images[which, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


class Network(nn.Module):
    """Fully connected layers with ReLU activations; each image is encoded by two convolutions first.

    ``inputs``, those of the agent, determine the size of the first layer. ``num_actions`` is the length of
    the action vector in the input of a critic, or 0 for other networks; ``is_critic`` is as in
    `Agent.make_network`.
    """

    def __init__(
        self,
        inputs: GoalInputs,
        hidden: Sequence[int],
        num_outputs: int,
        *,
        num_actions: int = 0,
        is_critic: bool | None = None,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        is_critic = num_actions > 0 if is_critic is None else is_critic
        read = [inputs, *[inputs.critic] * is_critic] if inputs.critic else [inputs]
        self._critic_keys = inputs.critic.keys if inputs.critic and is_critic else ()
        width = sum(each.width for each in read) + num_actions
        self._encoders: list[str] = []  # names of the attributes: image_encoder, image_encoder_1, ...
        for shape in itertools.chain(*(each.image_shapes for each in read)):
            first = nn.Conv2d(shape[0], 16, kernel_size=8, stride=4)
            second = nn.Conv2d(16, 32, kernel_size=4, stride=2)
            encoder = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten())
            self._encoders.append(f"image_encoder{f'_{n}' if (n := len(self._encoders)) else ''}")
            self.add_module(self._encoders[-1], encoder)
            width += encoder(torch.zeros(1, *shape)).shape[1]
        layers: list[nn.Module] = []
        for units in hidden:
            layers += [nn.Linear(width, units), *[nn.LayerNorm(units)] * layer_norm, nn.ReLU(inplace=True)]
            width = units
        self.layers = nn.Sequential(*layers, nn.Linear(width, num_outputs))

    def forward(self, inputs: NetworkInput, actions: torch.Tensor | None = None) -> torch.Tensor:
        """Return the outputs, (B, num_outputs), for B inputs and, in a critic, (B, A) actions."""
        parts, images = [inputs.vectors], inputs.images
        if self._critic_keys:
            if inputs.critic is None:
                keys = ", ".join(map(repr, self._critic_keys))
                raise ValueError(
                    f"observations for critics must have the keys {keys}; add them, or change critic_keys"
                )
            parts, images = [*parts, inputs.critic.vectors], images + inputs.critic.images
        pairs = zip(self._encoders, images, strict=True)
        parts += [self.get_submodule(name)(image) for name, image in pairs]
        parts += [] if actions is None else [actions]
        vectors = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
        return self.layers(vectors)  # type: ignore[no-any-return]


class Critics(nn.ModuleList):
    """C critics: networks with different initial weights, each with K outputs."""

    def forward(self, inputs: NetworkInput, actions: torch.Tensor) -> torch.Tensor:
        """Return the K outputs of each of the C critics, (C, K, B), for B inputs and (B, A) actions."""
        return torch.stack([critic(inputs, actions).T for critic in self])


def _shapes(key: str, observation_space: spaces.Dict) -> dict[Path, tuple[int, ...]]:
    """Return the shape of each vector or image at a key, by path; raise TypeError for other spaces."""
    if key not in observation_space.spaces:
        raise ValueError(
            f"the agent reads {key!r} of the observations, but the observation space has only "
            f"{', '.join(map(repr, observation_space))}; correct use_keys or critic_keys, or add the key"
        )
    shapes, leaves = {}, leaf_spaces(observation_space[key], (key,))
    has_images = any(len(space.shape or ()) == 3 for space in leaves.values())
    for path, space in leaves.items():
        shape = shapes[path] = tuple(space.shape or ())
        is_box = isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete)
        is_image = is_box and len(shape) == 3 and space.dtype == np.uint8
        if is_image and min(_channels_first(shape)[1:]) < MIN_IMAGE_SIZE:
            raise TypeError(
                f"images of {path_name(path)!r} must have at least {MIN_IMAGE_SIZE} x {MIN_IMAGE_SIZE} "
                f"pixels, got {space}; resize them, or flatten them to vectors"
            )
        if not is_image and (not is_box or len(shape) != 1):
            fix = "wrap the environment in her_wrappers.repairs.FlattenGoalObservation"
            if has_images or key not in OBSERVATION_KEYS:  # the wrapper would flatten or remove them
                fix = "convert it in a gymnasium.ObservationWrapper"
            raise TypeError(
                f"{path_name(path)!r} must be a vector (a Box, MultiBinary or MultiDiscrete space with one "
                f"axis) or an image (a uint8 Box with three axes), got {space}; {fix}"
            )
    return shapes


def _leaf(observations: Any, path: Path) -> Any:
    """Return the array or tensor at a path; raise ValueError if it is missing."""
    try:
        return reduce(getitem, path, observations)
    except (IndexError, KeyError, TypeError) as error:
        raise ValueError(
            f"the observations must have {path_name(path)!r}, but it is missing; pass observations with the "
            "structure of the observation space"
        ) from error


def _channels_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[2], *shape[:2]) if shape[2] < shape[0] else shape
