"""Networks for goal environments: normalized inputs, fully connected layers, and convolutions for images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

if TYPE_CHECKING:
    from her_wrappers import Batch

LEAST_ROWS = 64  # products of fewer rows, such as for the next action, are faster in float32
MIN_IMAGE_SIZE = 20  # [pixels]; the convolutions have no output for smaller images


class NetworkInput(NamedTuple):
    """The input of a network: B observations with their desired goals."""

    vectors: torch.Tensor  # (B, D) float32, normalized; D may be 0
    images: torch.Tensor | None  # (B, C, H, W) float32 in [-1, 1], or None


class Normalizer:
    """Normalizes vectors by the running mean and standard deviation of each component.

    Args:
        width: Length of a vector, D.
        num_goals: Length of a goal, G. The last G components of each vector are the desired goal. They are
            normalized by common statistics of desired and achieved goals, so `update` also takes achieved
            goals.
        clip: Largest absolute value of the output.
        min_deviation: Lower bound of the standard deviations, which would be 0 for constant components.
        device: Device of the statistics and of the vectors.

    Attributes:
        count: Number of vectors added so far, a 0-d int64 tensor.
        sums: (2, D + G) float64. Row 0 contains the sum of each column of the argument of `update`, row 1 the
            sum of the squares.
        shift: (D,) float32, the mean of each component.
        scale: (D,) float32, the reciprocal standard deviation of each component.
    """

    def __init__(
        self,
        width: int,
        num_goals: int = 0,
        *,
        clip: float = 5.0,
        min_deviation: float = 0.01,
        device: str | torch.device = "cpu",
    ) -> None:
        # A tensor, since a CUDA graph would repeat the number that it was captured with.
        self.count = torch.zeros((), dtype=torch.int64, device=device)
        self.sums = torch.zeros(2, width + num_goals, dtype=torch.float64, device=device)
        self.shift, self.scale = torch.zeros(width, device=device), torch.ones(width, device=device)
        average = torch.eye(width + num_goals, width, dtype=torch.float64)  # goals: mean of both values
        average[width - num_goals :, width - num_goals :] = torch.eye(num_goals).repeat(2, 1) / 2
        self._average = average.to(device)  # (D + G, D)
        self._clip = clip
        self._least_variance = min_deviation**2

    def update(self, values: torch.Tensor) -> None:
        """Add B vectors and their achieved goals to the statistics.

        Args:
            values: (B, D + G). The first D columns are the vectors, whose last G components are the desired
                goals. The last G columns are the achieved goals.
        """
        values = values.double()
        self.count += len(values)
        self.sums += torch.stack([values, values.square()]).sum(dim=1)
        self._refresh()

    def _refresh(self) -> None:
        mean, square = (self.sums @ self._average).div_(self.count)
        # In place, since CUDA graphs read and write the same memory each time.
        self.shift.copy_(mean)
        self.scale.copy_(square.addcmul_(mean, mean, value=-1).clamp_(min=self._least_variance).rsqrt_())

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Normalize (..., D) float32 vectors."""
        return (values - self.shift).mul_(self.scale).clamp_(-self._clip, self._clip)

    def state_dict(self) -> dict[str, Any]:
        """Return the statistics, for ``torch.save``."""
        return {"count": int(self.count), "sums": self.sums.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the statistics.

        Args:
            state: Result of `state_dict` of a normalizer with equal ``width`` and ``num_goals``.
        """
        self.count.fill_(state["count"])
        self.sums.copy_(state["sums"])
        if state["count"]:
            self._refresh()


class GoalInputs:
    """Converts observations to `NetworkInput`: concatenated vectors, and images stacked along their channels.

    Vectors are normalized by the statistics that `update_statistics` and `of_batch` collect. Achieved and
    desired goals have common statistics.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``.
        device: Device of the inputs.

    Attributes:
        device: Device of the inputs.
        normalizer: Normalizes the concatenated vectors.
        width: Length of the concatenated vectors, D.
        image_shape: (C, H, W) of the stacked images, or None.

    Raises:
        TypeError: An observation or a goal is neither a vector nor a uint8 image of at least 20 x 20 pixels,
            or images have different sizes.
    """

    def __init__(self, observation_space: spaces.Dict, device: str | torch.device = "cpu") -> None:
        self.device = torch.device(device)
        shapes = {key: _shape(key, observation_space[key]) for key in ("observation", "desired_goal")}
        images = {key: _channels_first(shape) for key, shape in shapes.items() if len(shape) == 3}
        if len({shape[1:] for shape in images.values()}) > 1:
            raise TypeError(
                "the images 'observation' and 'desired_goal' must have the same height and width, got shapes "
                f"{shapes['observation']} and {shapes['desired_goal']}; resize one of them"
            )
        self._single_ndim = len(shapes["desired_goal"])
        self._channels_last = {key for key in images if images[key] != shapes[key]}
        self._image_keys = list(images)
        vectors = {key: shape[0] for key, shape in shapes.items() if key not in images}
        self._vector_keys = list(vectors)
        self.width = sum(vectors.values())
        self.normalizer = Normalizer(self.width, num_goals=vectors.get("desired_goal", 0), device=device)
        sizes = list(images.values())
        self.image_shape = (sum(size[0] for size in sizes), *sizes[0][1:]) if sizes else None

    def as_batch(self, observation: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], bool]:
        """Return the arrays of an observation with a leading batch axis, and whether this axis was added."""
        arrays = {key: np.asarray(observation[key]) for key in [*self._vector_keys, *self._image_keys]}
        is_single = arrays["desired_goal"].ndim == self._single_ndim
        return {key: array[None] if is_single else array for key, array in arrays.items()}, is_single

    def update_statistics(self, observations: Mapping[str, Any]) -> None:
        """Add B observations, which are arrays or tensors, to the statistics of the normalizer."""
        self._vectors(observations, update=True)

    def of_batch(self, batch: Batch) -> tuple[NetworkInput, NetworkInput]:
        """Return the network inputs for the B observations of a batch, and for its next observations.

        Before that, the current (not the next) observations are added to the statistics of the normalizer.
        """
        vectors = self._vectors(batch.observations, update=True)
        inputs = NetworkInput(self.normalizer(vectors), self._images(batch.observations))
        return inputs, self(batch.next_observations)

    def __call__(self, observations: Mapping[str, Any]) -> NetworkInput:
        """Return the network input for B observations, which are arrays or tensors."""
        return NetworkInput(self.normalizer(self._vectors(observations)), self._images(observations))

    def _vectors(self, observations: Mapping[str, Any], *, update: bool = False) -> torch.Tensor:
        """Join observations and goals, without images, to (B, D); ``update`` also updates the normalizer."""
        keys = self._vector_keys
        if update and "desired_goal" in keys:
            keys = [*keys, "achieved_goal"]
        if not keys:
            count = observations["desired_goal"].shape[0]  # unlike len(), may vary in an exported model
            return torch.empty(count, 0, dtype=torch.float32, device=self.device)
        # Concatenated before they are moved to the device, since each copy to a GPU takes time.
        rows = torch.cat([torch.as_tensor(observations[key]) for key in keys], dim=1)
        rows = rows.to(self.device, torch.float32)
        if update:
            self.normalizer.update(rows)
        return rows[:, : self.width]

    def _images(self, observations: Mapping[str, Any]) -> torch.Tensor | None:
        """Return the images of B observations, stacked along their channels, (B, C, H, W) in [-1, 1]."""
        if not self._image_keys:
            return None
        images = []
        for key in self._image_keys:
            image = torch.as_tensor(observations[key], device=self.device)
            images.append(image.permute(0, 3, 1, 2) if key in self._channels_last else image)
        return torch.cat(images, dim=1).float() / 127.5 - 1


class Network(nn.Module):
    """Fully connected layers with ReLU activations; images are encoded by two convolutions first.

    Args:
        inputs: Inputs of the agent, which determine the size of the first layer.
        hidden: Units of each hidden layer.
        num_outputs: Units of the last layer.
        num_actions: Length of the action vector in the input of a critic; 0 for other networks.
        layer_norm: Whether to normalize the units of each hidden layer before the activation, by
            arXiv 1607.06450.
        bfloat16: Whether all layers but the first and the last may compute products in bfloat16, by
            `bfloat16_products`.
    """

    def __init__(
        self,
        inputs: GoalInputs,
        hidden: Sequence[int],
        num_outputs: int,
        *,
        num_actions: int = 0,
        layer_norm: bool = False,
        bfloat16: bool = False,
    ) -> None:
        super().__init__()
        self._bfloat16 = bfloat16
        self.image_encoder: nn.Module | None = None
        width = inputs.width + num_actions
        if inputs.image_shape is not None:
            first = nn.Conv2d(inputs.image_shape[0], 16, kernel_size=8, stride=4)
            second = nn.Conv2d(16, 32, kernel_size=4, stride=2)
            self.image_encoder = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten())
            width += self.image_encoder(torch.zeros(1, *inputs.image_shape)).shape[1]
        layers: list[nn.Module] = []
        for units in hidden:
            layers += [nn.Linear(width, units), *[nn.LayerNorm(units)] * layer_norm, nn.ReLU(inplace=True)]
            width = units
        self.layers = nn.Sequential(*layers, nn.Linear(width, num_outputs))

    def forward(self, inputs: NetworkInput, actions: torch.Tensor | None = None) -> torch.Tensor:
        """Return the outputs, (B, num_outputs), for B inputs and, in a critic, (B, A) actions."""
        vectors = inputs.vectors
        if self.image_encoder is not None:
            vectors = torch.cat([vectors, self.image_encoder(inputs.images)], dim=1)
        if actions is not None:
            vectors = torch.cat([vectors, actions], dim=1)
        *hidden, last = self.layers
        for layer in hidden[:1]:  # in float32, which keeps the precision of the inputs
            vectors = layer(vectors)
        with bfloat16_products(self._bfloat16 and vectors.shape[0] >= LEAST_ROWS):
            for layer in hidden[1:]:
                vectors = layer(vectors)
        outputs: torch.Tensor = last(vectors)
        return outputs


class Critics(nn.ModuleList):
    """C critics: networks with different initial weights, each with K outputs."""

    def forward(self, inputs: NetworkInput, actions: torch.Tensor) -> torch.Tensor:
        """Return the K outputs of each of the C critics, (C, K, B), for B inputs and (B, A) actions."""
        return torch.stack([critic(inputs, actions).T for critic in self])


@contextmanager
def bfloat16_products(enabled: bool) -> Iterator[None]:
    """Within the context, let torch compute products of float32 matrices in bfloat16, if ``enabled`` is True.

    torch does so only if the processor supports bfloat16; GPUs use TensorFloat-32. The sums of the products,
    and all other operations, are computed in float32. The setting applies to all threads of the process.
    """
    if not enabled:
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _shape(key: str, space: spaces.Space[Any]) -> tuple[int, ...]:
    """Return the shape of an observation or a goal; raise TypeError unless it is a vector or an image."""
    if isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        shape = tuple(space.shape)
        if len(shape) == 1:
            return shape
        if len(shape) == 3 and space.dtype == np.uint8:
            if min(_channels_first(shape)[1:]) < MIN_IMAGE_SIZE:
                raise TypeError(
                    f"images of {key!r} must have at least {MIN_IMAGE_SIZE} x {MIN_IMAGE_SIZE} pixels, got "
                    f"{space}; resize them, or flatten them to vectors"
                )
            return shape
    raise TypeError(
        f"{key!r} must be a vector (a Box, MultiBinary or MultiDiscrete space with one axis) or an image (a "
        f"uint8 Box with three axes), got {space}; wrap the environment in "
        "her_wrappers.repairs.FlattenGoalObservation"
    )


def _channels_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[2], *shape[:2]) if shape[2] < shape[0] else shape
