"""Networks for goal environments: normalized inputs, fully connected layers, and convolutions for images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

if TYPE_CHECKING:
    from her_wrappers import Batch

MIN_IMAGE_SIZE = 20  # [pixels]; the convolutions have no output for smaller images


class NetworkInput(NamedTuple):
    """The input of a network: B observations with their desired goals."""

    vectors: torch.Tensor  # (B, D) float32, normalized; D may be 0
    images: torch.Tensor | None  # (B, C, H, W) float32 in [-1, 1], or None


class Normalizer:
    """Normalizes vectors by the running mean and standard deviation of each component.

    Uses NumPy, which has less overhead than torch for small arrays.

    Args:
        width: Length of a vector, D.
        num_goals: G, how many trailing components are the goal; `update` gets a second value for each.
        clip: Largest absolute value of the output.
        min_deviation: Lower bound of the standard deviations, for constant components.

    Attributes:
        count: Number of rows so far.
        sums: (2, D + G) float64, sums of the values and of their squares.
        shift: (D,) float32, the mean of each component.
        scale: (D,) float32, the reciprocal of its standard deviation.
    """

    def __init__(
        self, width: int, num_goals: int = 0, clip: float = 5.0, min_deviation: float = 0.01
    ) -> None:
        self.count = 0
        self.sums = np.zeros((2, width + num_goals))
        self.shift, self.scale = np.zeros(width, np.float32), np.ones(width, np.float32)
        self._average = np.eye(width + num_goals, width)  # (D + G, D), averages both values of goals
        self._average[width - num_goals :, width - num_goals :] = np.tile(np.eye(num_goals) / 2, (2, 1))
        self._clip = clip
        self._least_variance = min_deviation**2

    def update(self, values: np.ndarray) -> None:
        """Add vectors to the statistics.

        Args:
            values: (B, D + G) float64: B vectors, each followed by second values of its goal components. The
                array is overwritten.
        """
        ones = np.ones(len(values))
        self.count += len(values)
        self.sums[0] += ones @ values  # takes half the time of a sum over the first axis
        values *= values
        self.sums[1] += ones @ values
        self._refresh()

    def _refresh(self) -> None:
        """Compute shift and scale from the sums."""
        mean, square = self.sums @ self._average / self.count
        self.shift[:] = mean
        square -= mean * mean
        np.maximum(square, self._least_variance, out=square)
        np.sqrt(square, out=square)
        np.divide(1, square, out=self.scale, casting="same_kind")

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Normalize (..., D) float32 vectors in place, and return them."""
        values -= self.shift
        values *= self.scale
        np.minimum(values, self._clip, out=values)
        np.maximum(values, -self._clip, out=values)
        return values

    def state_dict(self) -> dict[str, Any]:
        """Return the statistics, for ``torch.save``."""
        return {"count": self.count, "sums": torch.from_numpy(self.sums.copy())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore statistics.

        Args:
            state: Result of `state_dict` of a normalizer of equal size.
        """
        self.count = state["count"]
        self.sums[:] = state["sums"].numpy()
        if self.count:
            self._refresh()


class GoalInputs:
    """Converts observations to `NetworkInput`: concatenated vectors, and images stacked along their channels.

    Vectors are normalized by the statistics of `update_statistics`. Achieved and desired goals have common
    statistics.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``.

    Attributes:
        normalizer: Normalizes the concatenated vectors.
        width: Length of the concatenated vectors, D.
        image_shape: (C, H, W) of the stacked images, or None.

    Raises:
        TypeError: An observation or a goal is neither a vector nor a uint8 image of at least 20 x 20 pixels,
            or images have different sizes.
    """

    def __init__(self, observation_space: spaces.Dict) -> None:
        shapes = {key: _shape(key, observation_space[key]) for key in ("observation", "desired_goal")}
        images = {key: _channels_first(shape) for key, shape in shapes.items() if len(shape) == 3}
        if len({shape[1:] for shape in images.values()}) > 1:
            raise TypeError(f"images in observations must have the same size, got {observation_space}")
        self._single_ndim = len(shapes["desired_goal"])
        self._channels_last = {key for key in images if images[key] != shapes[key]}
        self._image_keys = list(images)
        vectors = {key: shape[0] for key, shape in shapes.items() if key not in images}
        self._vector_keys = list(vectors)
        self.width = sum(vectors.values())
        self.normalizer = Normalizer(self.width, num_goals=vectors.get("desired_goal", 0))
        sizes = list(images.values())
        self.image_shape = (sum(size[0] for size in sizes), *sizes[0][1:]) if sizes else None

    def as_batch(self, observation: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], bool]:
        """Return the arrays of an observation with a leading axis, and whether the axis was added."""
        arrays = {key: np.asarray(observation[key]) for key in [*self._vector_keys, *self._image_keys]}
        is_single = arrays["desired_goal"].ndim == self._single_ndim
        return {key: array[None] if is_single else array for key, array in arrays.items()}, is_single

    def update_statistics(self, observations: Mapping[str, Any]) -> None:
        """Add B observations, which are arrays or CPU tensors, to the statistics of the normalizer."""
        keys = self._vector_keys
        if "desired_goal" in keys:
            keys = [*keys, "achieved_goal"]
        if keys:
            self.normalizer.update(
                np.concatenate([observations[key] for key in keys], axis=1, dtype=np.float64)
            )

    def of_batch(self, batch: Batch) -> tuple[NetworkInput, NetworkInput]:
        """Return the network inputs for the B observations of a batch, and for its next observations.

        The observations are added to the statistics first.
        """
        self.update_statistics(batch.observations)
        inputs, next_inputs = self._convert(batch.observations, batch.next_observations)
        return inputs, next_inputs

    def __call__(self, observations: Mapping[str, Any]) -> NetworkInput:
        """Return the network input for B observations, which are arrays or CPU tensors."""
        return self._convert(observations)[0]

    def _convert(self, *observations: Mapping[str, Any]) -> list[NetworkInput]:
        """Return the inputs for several lists of B observations; converting them together is faster."""
        vectors = np.empty((len(observations), len(observations[0]["desired_goal"]), self.width), np.float32)
        if self._vector_keys:
            for each, rows in zip(observations, vectors, strict=True):
                np.concatenate([each[key] for key in self._vector_keys], axis=1, out=rows)
        normalized = self.normalizer(vectors)
        images = [self._images(each) if self._image_keys else None for each in observations]
        return [NetworkInput(torch.from_numpy(v), i) for v, i in zip(normalized, images, strict=True)]

    def _images(self, observations: Mapping[str, Any]) -> torch.Tensor:
        """Return the images of B observations, stacked along their channels, (B, C, H, W) in [-1, 1]."""
        images = []
        for key in self._image_keys:
            image = torch.as_tensor(observations[key])
            images.append(image.permute(0, 3, 1, 2) if key in self._channels_last else image)
        return torch.cat(images, dim=1).float() / 127.5 - 1


class Network(nn.Module):
    """Fully connected layers with ReLU activations; images are encoded by two convolutions first.

    Args:
        inputs: Determines the size of the input.
        hidden: Units of each hidden layer.
        num_outputs: Units of the last layer.
        num_actions: Length of the action vector in the input of a critic; 0 for other networks.
        layer_norm: Whether to normalize the units of each hidden layer before the activation, by
            arXiv 1607.06450.
    """

    def __init__(
        self,
        inputs: GoalInputs,
        hidden: Sequence[int],
        num_outputs: int,
        *,
        num_actions: int = 0,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.image_encoder: nn.Module | None = None
        width = inputs.width + num_actions
        if inputs.image_shape is not None:
            first = nn.Conv2d(inputs.image_shape[0], 16, kernel_size=8, stride=4)
            second = nn.Conv2d(16, 32, kernel_size=4, stride=2)
            self.image_encoder = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten())
            width += self.image_encoder(torch.zeros(1, *inputs.image_shape)).shape[1]
        layers: list[nn.Module] = []
        for units in hidden:
            layers += [nn.Linear(width, units), *[nn.LayerNorm(units)] * layer_norm, nn.ReLU()]
            width = units
        self.layers = nn.Sequential(*layers, nn.Linear(width, num_outputs))

    def forward(self, inputs: NetworkInput, actions: torch.Tensor | None = None) -> torch.Tensor:
        """Return the outputs, (B, num_outputs), for B inputs and, in a critic, (B, A) actions."""
        vectors = inputs.vectors
        if self.image_encoder is not None:
            vectors = torch.cat([vectors, self.image_encoder(inputs.images)], dim=1)
        if actions is not None:
            vectors = torch.cat([vectors, actions], dim=1)
        outputs: torch.Tensor = self.layers(vectors)
        return outputs


class Critics(nn.ModuleList):
    """C critics: networks with different initial weights, each with K outputs."""

    def forward(self, inputs: NetworkInput, actions: torch.Tensor) -> torch.Tensor:
        """Return the values of all critics, (C, K, B), for B inputs and (B, A) actions."""
        return torch.stack([critic(inputs, actions).T for critic in self])


def _shape(key: str, space: spaces.Space[Any]) -> tuple[int, ...]:
    """Return the shape of an observation or a goal; raise TypeError unless it is a vector or an image."""
    if isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        shape = tuple(space.shape)
        if len(shape) == 1:
            return shape
        if len(shape) == 3 and space.dtype == np.uint8:
            if min(_channels_first(shape)[1:]) < MIN_IMAGE_SIZE:
                raise TypeError(
                    f"images of {key} must have at least {MIN_IMAGE_SIZE} x {MIN_IMAGE_SIZE} pixels, got "
                    f"{space}; resize them, or flatten them to vectors"
                )
            return shape
    raise TypeError(
        f"{key} must be a vector (Box, MultiBinary, MultiDiscrete) or a uint8 image, got {space}; wrap the "
        "environment in her_wrappers.repairs.FlattenGoalObservation"
    )


def _channels_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[2], *shape[:2]) if shape[2] < shape[0] else shape
