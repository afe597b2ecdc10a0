"""ReplayAdapter: the interface through which `check_replay` uses a replay buffer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

from her_wrappers.conformance.oracle import Eviction

if TYPE_CHECKING:
    import gymnasium as gym
    import numpy as np

Terminations: TypeAlias = Literal["recompute", "success", "keep", "never"]
TERMINATIONS = (*get_args(Terminations), None)

STRATEGIES = ("future", "final", "episode", "random", "geometric")
"""Goal selection strategies. Most scenarios use the first one that the adapter offers."""

OFFERS = {
    **{strategy: f"goal selection strategy {strategy}" for strategy in STRATEGIES},
    "several environments": "interleaved steps of several environments, with env_index",
    "end episode": "end_episode, for an episode that a reset interrupts",
    "changing goals": "desired goals that change inside an episode",
    "recorded rewards": "original transitions keep the rewards that were added",
    "infos": "compute_reward gets the info of the step",
    "images": "uint8 images as goals",
    "discrete": "goals of a Discrete space",
    "seed": "seed makes batches reproducible",
    "save": "save and load, with the transitions",
    "save generator": "a loaded buffer continues with the same random sequence",
    "n-step": "options n_steps and gamma",
    "priorities": "update_priorities and the key index",
}
"""Features that an adapter can list in ``offers``. Rules that need no feature apply to every buffer."""

MISSING = "define {0}(), or remove {1!r} from offers"


class ReplayAdapter(ABC):
    """Base class of adapters, through which `check_replay` uses a replay buffer.

    The constructor makes an empty buffer. ``**options`` are passed only if the adapter offers the feature
    that needs them: ``n_steps`` and ``gamma`` for ``"n-step"``; ``prioritized=True`` for ``"priorities"``.

    Attributes:
        name: Name and version of the buffer.
        offers: Features that the buffer supports: a set of keys of `OFFERS`, at least one of them a strategy.
        samples_open_episodes: Whether steps of open episodes are sampled, with goals from the steps so far;
            None if the buffer does not document this, so that the check accepts both.
        evicts: Whether a full buffer removes whole ``"episodes"`` or single ``"steps"``; None if the buffer
            does not document this, so that the check accepts both.
        ends_all_episodes: Whether `end_episode` ends the open episodes of all environments, as the buffer
            documents it.
        termination: When relabeled transitions terminate, as the buffer documents it.
            ``"recompute"``: a transition terminates if it reaches the new goal, or if the recorded step
            terminated independently of the goal. ``"success"``: the same, but the buffer sees from the reward
            whether the goal is reached; the check then uses only the rewards 0 and -1, so ``offers`` must not
            contain ``"infos"``. ``"keep"``: the recorded termination is kept. ``"never"``: no relabeled
            transition terminates. None: batches have no terminations.

    Args:
        env: A single environment that cannot be reset or stepped; it has only spaces, ``compute_reward`` and
            ``compute_terminated``.
        buffer_size: Capacity in transitions, without relabeled copies.
        strategy: Goal selection strategy, one of ``offers``.
        n_sampled_goal: Number of relabeled transitions per original transition, k; a share of k / (k + 1) of
            sampled transitions is relabeled.
        max_episode_steps: Maximum number of steps of an episode.
        num_envs: Number of environments; 1 unless ``"several environments"`` is offered.
        seed: Seed of the buffer.
    """

    name: ClassVar[str]
    offers: ClassVar[Set[str]]
    termination: ClassVar[Terminations | None] = "recompute"
    samples_open_episodes: ClassVar[bool | None] = None
    evicts: ClassVar[Eviction | None] = None
    ends_all_episodes: ClassVar[bool] = False

    @abstractmethod
    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        buffer_size: int,
        strategy: str,
        n_sampled_goal: int,
        max_episode_steps: int,
        num_envs: int = 1,
        seed: int = 0,
        **options: Any,
    ) -> None: ...

    @abstractmethod
    def add(  # noqa: PLR0917 - a transition, in the order in which Gymnasium's step returns it
        self,
        obs: dict[str, Any],
        action: np.ndarray,
        reward: float,
        next_obs: dict[str, Any],
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
        env_index: int = 0,
    ) -> None:
        """Add one transition of one environment, in the way that the documentation of the buffer describes.

        Arrays have the shapes and dtypes of the spaces. ``obs`` and ``next_obs`` are dicts of
        ``observation``, ``achieved_goal`` and ``desired_goal`` before and after the step. At the last step of
        an episode, ``next_obs`` is the last observation of the episode, not the first one after the reset.
        Successive calls have ``env_index`` 0, 1, ..., ``num_envs - 1``, then 0 again.
        """

    @abstractmethod
    def sample(self, batch_size: int) -> dict[str, Any]:
        """Return a batch of B = ``batch_size`` transitions as NumPy arrays of numbers.

        These are (B, ...) arrays ``observation``, ``achieved_goal``, ``desired_goal``, ``action``,
        ``next_observation``, ``next_achieved_goal`` and ``next_desired_goal``, and (B,) arrays ``reward``
        and, unless `termination` is None, ``terminated``. Optional (B,) arrays: ``truncated``;
        ``discount``, the factor by which a learner multiplies the value of the next observation;
        ``index``, the indices of the transitions (required if `offers` contains ``"priorities"``);
        ``weight``, the importance weights, which are smaller for higher priorities.
        """

    def end_episode(self, env_index: int = 0) -> None:
        """End the open episode of an environment, which a reset interrupted."""
        raise NotImplementedError(MISSING.format("end_episode", "end episode"))

    def update_priorities(self, index: np.ndarray, priorities: np.ndarray) -> None:
        """Set the priorities of sampled transitions.

        Args:
            index: (M,) values of ``index`` in sampled batches; a value can occur several times.
            priorities: (M,) float priorities, greater than 0.
        """
        raise NotImplementedError(MISSING.format("update_priorities", "priorities"))

    def save(self, path: str) -> None:
        """Save the transitions, and priorities if they are offered, as a new file or folder ``path``.

        Open episodes are saved too: after loading, the next step of each environment continues its episode.
        A buffer that cannot save them truncates them before saving.
        """
        raise NotImplementedError(MISSING.format("save", "save"))

    def load(self, path: str) -> None:
        """Replace the content of this buffer with the content that `save` wrote to ``path``.

        The saved buffer was constructed with the same arguments, except ``seed``.
        """
        raise NotImplementedError(MISSING.format("load", "save"))


def require_adapter(adapter: Any) -> type[ReplayAdapter]:
    """Return ``adapter``; raise TypeError or ValueError unless it is a valid subclass of `ReplayAdapter`."""
    if not (isinstance(adapter, type) and issubclass(adapter, ReplayAdapter)):
        raise TypeError(f"adapter must be a class that inherits from ReplayAdapter, got {adapter!r}")
    label = adapter.__name__
    for attribute, kind in (("name", str), ("offers", Set)):
        if not isinstance(found := getattr(adapter, attribute, None), kind):
            expected = f"{label}.{attribute} must be a {kind.__name__.lower()}"
            raise TypeError(f"{expected}, got {found!r}; define it as a class attribute")
    offers = adapter.offers
    if unknown := sorted(map(repr, offers - OFFERS.keys())):
        valid = ", ".join(map(repr, OFFERS))
        raise ValueError(f"{label}.offers contains the unknown feature {unknown[0]}; choose from {valid}")
    if not offers & set(STRATEGIES):
        raise ValueError(f"{label}.offers must contain at least one of {STRATEGIES}, got {set(offers)}")
    for attribute, values in (("evicts", ("episodes", "steps", None)), ("termination", TERMINATIONS)):
        if (found := getattr(adapter, attribute)) not in values:
            raise ValueError(f"{label}.{attribute} must be one of {values}, got {found!r}")
    return adapter
