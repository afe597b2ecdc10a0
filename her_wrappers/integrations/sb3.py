"""Stable-Baselines3: a `HerReplayBuffer` in the place of its own, with `HindsightReplayBuffer` inside.

``docs/stable_baselines3.md`` tells what is the same, what is different, and what there is beyond.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.goal_interface import require_goal_space
from her_wrappers.recording.values import as_rewards
from her_wrappers.replay.buffer import HindsightReplayBuffer
from her_wrappers.replay.goal_sampler import GoalMixture
from her_wrappers.replay.options import FORMER_NAME
from her_wrappers.user_warning import renamed_argument, warn_user

try:
    import stable_baselines3 as sb3
    from stable_baselines3.common.buffers import BaseBuffer
    from stable_baselines3.her.goal_selection_strategy import KEY_TO_GOAL_STRATEGY
except ImportError as error:
    raise ImportError(
        'her_wrappers.integrations.sb3 needs Stable-Baselines3; run: pip install "her-toolkit[sb3]"'
    ) from error

from her_wrappers.integrations.sb3_batches import TensorBatches, normalized
from her_wrappers.integrations.sb3_infos import STEP, RecordedInfos
from her_wrappers.integrations.sb3_open import EpisodeAccumulators, Step
from her_wrappers.integrations.sb3_shapes import Ignored, Sb3Shapes, as_choice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch
    from gymnasium import spaces
    from stable_baselines3.common.type_aliases import DictReplayBufferSamples
    from stable_baselines3.common.vec_env import VecEnv, VecNormalize
    from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy

    from her_wrappers.goal_interface import GoalFunction
    from her_wrappers.replay.goal_sampler import GoalSelection
    from her_wrappers.replay.terminations import TerminationMode

SB3_ARRAYS = (
    "observations", "next_observations", "actions", "rewards", "timeouts", "infos",
    "ep_start", "ep_length", "_current_ep_start",
)  # fmt: skip
"""Where SB3's class stores transitions; there are none here."""


class HerReplayBuffer(sb3.HerReplayBuffer):
    """Stable-Baselines3's ``HerReplayBuffer``, faster, and right about where relabeled episodes end.

    Takes the same arguments and has the same methods. An episode as long as the buffer of one environment can
    be sampled; a longer one is cut there. An episode that a reset breaks off, as ``learn`` does, is cut too.

    Args:
        buffer_size: Transitions that the buffer holds, of all environments together.
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``.
        action_space: Actions of one environment.
        env: The training environment, whose ``compute_reward`` is asked; SB3's algorithms pass it.
        device: Where batches go.
        n_envs: Number of environments.
        optimize_memory_usage: Accepted; a state is never stored twice.
        handle_timeout_termination: Whether an end with ``info["TimeLimit.truncated"]`` is no termination.
        n_sampled_goal: Relabeled transitions for every original one; None where a `Mixture` gives the share.
        goal_selection_strategy: SB3's enum or its names, or what `HindsightReplayBuffer` takes:
            ``"geometric"``, ``"random"``, a function, or a `Mixture`.
        copy_info_dict: Whether to keep the infos of all steps for ``compute_reward``, which otherwise gets
            empty dicts. They are as they were under the recorded goal.
        termination: Whether a relabeled step ends its episode. ``"keep"``: as recorded, as SB3 does.
            ``"success"``: where its reward is that of a reached goal; for environments that end on success.
            ``"recompute"``: where the environment's ``compute_terminated`` says so. ``"never"``, or a
            function used like ``compute_terminated``.
        n_steps: Most steps whose rewards are added up, all under one goal. SB3's algorithms ignore an
            ``n_steps`` of their own beside a buffer like this one.
        gamma: Discount factor of those sums, to be the same as the algorithm's; of no influence on one step.
        resample_achieved_goals: Whether a new goal that was achieved before the step already is sampled once
            more. Called ``skip_trivial`` in version 0.1.
        seed: Seeds the private generator; without one, NumPy's global generator does, and SB3 seeds that.

    Raises:
        TypeError: A space has elements that are not arrays of one shape.
        ValueError: The observations are not those of a goal environment, or an argument has a value that it
            cannot have.

    Attributes:
        hindsight: The `HindsightReplayBuffer`: ``statistics()``, ``episodes()``, ``verify()``.

    Example:
        >>> import gymnasium as gym, her_envs
        >>> from stable_baselines3 import SAC
        >>> env = gym.make("her_envs/PointReach-v0")
        >>> model = SAC("MultiInputPolicy", env, replay_buffer_class=HerReplayBuffer)
    """

    @renamed_argument(*FORMER_NAME)
    def __init__(  # noqa: PLR0917 - in the order of SB3's class
        self,
        buffer_size: int,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        env: VecEnv | None,
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        n_sampled_goal: int | None = 4,
        goal_selection_strategy: GoalSelectionStrategy | GoalSelection = "future",
        copy_info_dict: bool = False,
        *,
        termination: TerminationMode | GoalFunction = "keep",
        n_steps: int = 1,
        gamma: float = 0.99,
        resample_achieved_goals: bool = False,
        seed: int | None = None,
    ) -> None:
        observation_space = require_goal_space(observation_space)
        # What stands between in SB3's hierarchy allocates arrays.
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs)
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.env = env
        self.optimize_memory_usage = optimize_memory_usage
        self.handle_timeout_termination = handle_timeout_termination
        self.copy_info_dict = copy_info_dict
        self.n_sampled_goal = n_sampled_goal  # type: ignore[assignment] # may be None here
        choice = as_choice(goal_selection_strategy)
        known: Any = KEY_TO_GOAL_STRATEGY
        self.goal_selection_strategy = known.get(choice, choice) if isinstance(choice, str) else choice
        self.her_ratio = sum(each.share for each in GoalMixture(choice, n_sampled_goal, None).components)
        self._infos = RecordedInfos(n_envs) if copy_info_dict else None
        self._shapes = Sb3Shapes(observation_space, action_space, n_envs)
        self._open = EpisodeAccumulators(self._shapes.state_spec, self._shapes.action_spec, n_envs)
        if seed is None:
            seed = int(np.random.randint(2**31))  # noqa: NPY002 - SB3's algorithms seed this one
        self.hindsight = HindsightReplayBuffer(
            self._shapes.states,
            self._shapes.actions,
            buffer_size=self.buffer_size * n_envs,
            compute_reward=partial(self._ask_env, "compute_reward"),
            compute_terminated=self._find_compute_terminated() if termination == "recompute" else None,
            n_sampled_goal=n_sampled_goal,
            goal_selection_strategy=choice,
            termination=partial(self._ask, termination) if callable(termination) else termination,
            n_steps=n_steps,
            gamma=gamma,
            resample_achieved_goals=resample_achieved_goals,
            info_keys=(STEP,) if copy_info_dict else (),
            seed=seed,
        )
        self._batches = TensorBatches(self.hindsight, seed, discounts=n_steps > 1)

    def add(  # type: ignore[override] # as in SB3's class  # noqa: PLR0917
        self,
        obs: dict[str, np.ndarray],
        next_obs: dict[str, np.ndarray],
        action: np.ndarray,
        reward: np.ndarray,
        done: np.ndarray,
        infos: list[dict[str, Any]],
    ) -> None:
        """Add one transition of every environment; they can be sampled once their episodes have ended.

        Args:
            obs: What the agents saw, of all environments.
            next_obs: What they saw then, also where episodes ended.
            action: What they did, as it is to come out of `sample`.
            reward: (N,) what they earned.
            done: (N,) bool, whether an episode ended.
            infos: The infos of the step.

        Raises:
            ValueError: A value does not fit, or there is no environment to ask; nothing is added. Or an
                episode that ends has a reward that is not finite; it is dropped.
        """
        self._require_env()
        states = self._shapes.read_states(obs, self._open.where)
        actions = self._shapes.read_actions(action, self._open.where)
        rewards = as_rewards(reward, self.n_envs).tolist()
        outcomes = self._shapes.read_states(next_obs, self._open.where_next)
        if not self._open.show(states):
            self._begin(states)
        recorded = None if self._infos is None else self._infos.keep(infos)
        self._open.add(Step(actions, rewards, recorded), outcomes)
        self._advance()
        ended = np.asarray(done).tolist()
        if any(ended) or self._open.span >= self.buffer_size:
            self._end(ended, infos)

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> DictReplayBufferSamples:  # type: ignore[override] # as in SB3's class
        """Draw transitions uniformly with replacement, relabeled ones first.

        Args:
            batch_size: Number of transitions, B.
            env: Normalizes observations and rewards, after rewards were computed for goals as they are.

        Raises:
            RuntimeError: No episode is complete yet.
            ValueError: ``batch_size`` is below 1, or there is no environment to ask for rewards.
        """
        if not self._batches.are_made(batch_size):
            self._require_env()
            if not self.hindsight.can_sample:
                raise RuntimeError(
                    "Unable to sample before the end of the first episode; choose a learning_starts greater "
                    "than the steps of an episode times n_envs"
                )
            self._batches.make(batch_size, self.device)
        batch = self._batches.pop()
        return batch if env is None else normalized(batch, env)

    def truncate_last_trajectory(self) -> None:
        """End the open episodes, if there are any, and warn that this was done."""
        envs = [i for i, length in enumerate(self._open.lengths) if length > 0]
        if envs:
            warn_user(
                "The last trajectory in the replay buffer will be truncated; pass truncate_last_traj=False "
                "to load_replay_buffer if its episode goes on"
            )
            self._store(envs, [not self.handle_timeout_termination] * len(envs))

    def reset(self) -> None:
        """Drop everything, open episodes included."""
        self.hindsight.clear()
        self._batches.invalidate()
        self._open.discard()
        if self._infos is not None:
            self._infos = RecordedInfos(self.n_envs)
        super().reset()

    @property
    def dones(self) -> Any:  # type: ignore[override] # an array in SB3's class
        """What SB3 writes to when ``learn`` begins anew with ``optimize_memory_usage=True``."""
        return Ignored()

    def __getattr__(self, name: str) -> Any:
        if name in SB3_ARRAYS:
            raise AttributeError(
                f"this HerReplayBuffer has no array {name!r}, since it stores whole episodes; "
                "use hindsight.episodes() or sample()"
            )
        raise AttributeError(f"HerReplayBuffer has no attribute {name!r}")

    def _begin(self, states: list[bytes]) -> None:
        """Open an episode wherever ``states`` do not follow on what is open."""
        envs = self._open.elsewhere(states)
        self._store(envs, [False] * len(envs))
        self._open.begin(envs, states)

    def _advance(self) -> None:
        """Count as SB3 does."""
        self.pos += 1
        if self.pos == self.buffer_size:
            self.full = True
            self.pos = 0

    def _end(self, ended: Sequence[bool], infos: Sequence[Mapping[str, Any]]) -> None:
        """Store the episodes that ended, and cut those that are as long as the buffer."""
        lengths = self._open.lengths
        over = [i for i, end in enumerate(ended) if end or lengths[i] == self.buffer_size]
        self._store(over, [bool(ended[i]) and not self._is_timeout(infos[i]) for i in over])

    def _store(self, envs: Sequence[int], terminated: Sequence[bool]) -> None:
        """End the episodes of some environments, each as terminated or as truncated."""
        episodes = self._open.finish(envs, terminated)
        if episodes is not None:
            self._batches.invalidate()
            self.hindsight.add_episodes(episodes)
            if self._infos is not None:
                self._infos.follow(episodes, len(self.hindsight))

    def _is_timeout(self, info: Mapping[str, Any]) -> bool:
        """Whether a time limit ended an episode, and that is to be told from a termination."""
        return self.handle_timeout_termination and bool(info.get("TimeLimit.truncated", False))

    def _find_compute_terminated(self) -> GoalFunction | None:
        self._require_env()
        has_it = self.env is not None and self.env.has_attr("compute_terminated")
        return partial(self._ask_env, "compute_terminated") if has_it else None

    def _require_env(self) -> None:
        """Refuse to go on where functions may be needed and there is nobody to ask.

        Raises:
            ValueError: There is no environment.
        """
        if self.env is None and self.her_ratio > 0:
            raise ValueError(
                "relabeled transitions need their rewards computed, and this buffer has no environment; call "
                "set_env(vec_env), as load_replay_buffer of SB3's algorithms does"
            )

    def _ask_env(self, name: str, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Ask a function of the first environment, which is taken to be like all others."""
        function = partial(self.env.env_method, name, indices=[0])  # type: ignore[union-attr] # `_require_env`
        answer = self._ask(function, achieved_goal, desired_goal, info)[0]
        return answer[:, 0] if np.shape(answer) == (len(achieved_goal), 1) else answer

    def _ask(self, function: Any, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return function(achieved_goal, desired_goal, info if self._infos is None else self._infos.of(info))
