"""Sources of the episodes of a run: environments of this process, a simulator, workers, or recordings.

A source fills its replay buffer, from which the run samples. A run uses only the attributes and methods of
`Source`, so a new kind of source needs one class in this file, and one line in `open_source`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from her_agents.algorithms.registry import make_agent
from her_agents.training.demonstrations import read_demonstrations
from her_agents.training.starts import START, Starts, StartWrapper
from her_wrappers import (
    DeviceReplayBuffer,
    HindsightReplayBuffer,
    NotFiniteError,
    Priority,
    VectorEpisodeRecorder,
)
from her_wrappers.collecting import Collector
from her_wrappers.goals.action_masks import ActionMaskObservation, with_action_mask
from her_wrappers.goals.autoreset import declared_mode
from her_wrappers.goals.environments import (
    BrokenModuleError,
    EnvNameError,
    batch_options,
    call_factory,
    find_env,
    import_callable,
    make_env,
    make_vector_env,
)
from her_wrappers.goals.episode_limit import MAX_EPISODE_STEPS, declared_time_limit, limit_episodes
from her_wrappers.goals.interface import goal_spaces
from her_wrappers.goals.real_robot import INTERVENED, RealRobot, find_robot
from her_wrappers.integrations.recordings import open_episodes
from her_wrappers.simulators import GoalSimulator
from her_wrappers.support.user_warning import warn_user

if TYPE_CHECKING:
    from her_agents.algorithms.base import Agent
    from her_agents.training.config import Config
    from her_agents.training.logs import Row
    from her_wrappers import Episode
    from her_wrappers.goals.environments import EnvFactory


class Collected(NamedTuple):
    """Numbers of the steps and episodes that a call of `Source.collect` added to the buffer."""

    steps: int  # of all environments together
    successes: Any = 0.0  # number of episodes whose last step is a success; a 0-d tensor on a device
    episodes: Any = 0  # number of episodes


def _collected(steps: int, episodes: Sequence[Episode], success_key: str) -> Collected:
    return Collected(steps, sum(float(each.infos[success_key][-1]) for each in episodes), len(episodes))


class Source:
    """A source of episodes, which it adds to ``buffer``.

    This class collects nothing: in an offline run, the buffer has all episodes from the beginning.
    """

    def __init__(self, buffer: HindsightReplayBuffer) -> None:
        self.buffer = buffer
        self.starts: Starts | None = None  # of episodes that begin in recorded states
        self.await_updates: Callable[[], object] = lambda: None  # set by runs whose updates are in a thread
        self.skipped = 0  # episodes that were not added
        self.reason = ""  # why the first of them was not added

    def add(self, episodes: Sequence[Episode]) -> None:
        """Add episodes to the buffer. Skip those with values that are not finite; warn at the first one."""
        try:
            self.buffer.add_episodes(episodes)
        except NotFiniteError as error:
            if len(episodes) > 1:
                for each in episodes:
                    self.add([each])
                return
            if not self.skipped:
                self.reason = str(error)  # not the error, whose traceback has the episode
                warn_user(f"an episode is skipped, and others like it will be skipped too, since {error}")
            self.skipped += 1

    @property
    def is_finished(self) -> bool:
        """Whether all episodes of the epoch have ended."""
        return True

    def begin(self, seed: int) -> None:
        """Begin new episodes."""

    def add_open(self) -> None:
        """Add the unfinished episodes to the buffer, as truncated; `begin` must be called afterwards."""

    def measured(self) -> Row:
        """Return measurements since the last call, by name."""
        return {} if self.starts is None else self.starts.measure()

    def collect(self, agent: Agent, remaining: int) -> Collected:
        """Collect steps until the next update of the agent, which explores.

        After ``remaining`` steps, the end of the epoch, the source finishes the open episodes, and begins no
        others until `begin`.
        """
        return Collected(0)

    def state_dict(self) -> dict[str, Any]:
        """Return the part of a checkpoint that restores the source, except for its buffer."""
        return {} if self.starts is None else {"starts": self.starts.curriculum}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the source from a checkpoint."""
        if self.starts is not None:
            self.starts.curriculum = state["starts"]

    def close(self) -> None:
        """Close environments and workers."""


class EnvironmentSource(Source):
    """Steps a vector environment in this process."""

    def __init__(self, buffer: HindsightReplayBuffer, envs: Any, success_key: str, **options: Any) -> None:
        super().__init__(buffer)
        self._success_key = success_key
        self._ended_now: list[Episode] = []  # at the latest step, in the order of their environments
        self._envs = VectorEpisodeRecorder(envs, self._ended_now.append, **options)
        self._next_step_mode = declared_mode(envs) is AutoresetMode.NEXT_STEP
        self._observations: Any = None
        self._ended = np.zeros(envs.num_envs, bool)  # at the latest step
        self._finished = self._ended  # environments whose last episode of the epoch has ended

    @property
    def is_finished(self) -> bool:
        return bool(self._finished.all())

    def begin(self, seed: int) -> None:
        if self.starts is not None:
            self.starts.begin(seed, self.buffer)
        self._observations, _ = self._envs.reset(seed=seed)
        self._ended = self._finished = np.zeros(self._envs.num_envs, bool)
        self._ended_now.clear()

    def add_open(self) -> None:
        """Add the unfinished episodes, including the episode of an environment that failed."""
        self._envs.truncate()
        if self._ended_now:
            self.add(self._ended_now)
        self._ended_now.clear()

    def collect(self, agent: Agent, remaining: int) -> Collected:
        """Step each environment once; discard steps of environments that wait for the end of the epoch."""
        actions = agent.act(self._observations, explore=True)
        self._observations, _, terminated, truncated, _ = self._envs.step(actions)
        resets = self._ended & self._next_step_mode
        steps = int(np.count_nonzero(~(self._finished | resets)))
        self._ended = terminated | truncated
        ended = zip(np.flatnonzero(self._ended), self._ended_now, strict=True)
        episodes = [episode for i, episode in ended if not self._finished[i]]
        if episodes:
            self.add(episodes)
        self._ended_now.clear()
        if steps >= remaining:
            self._finished = self._finished | self._ended
        return _collected(steps, episodes, self._success_key)

    def close(self) -> None:
        self._envs.close()


class RobotSource(EnvironmentSource):
    """Steps the environment of a robot, and measures its control rate."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._seconds: list[np.ndarray] = []  # between steps, by episode

    def add(self, episodes: Sequence[Episode]) -> None:
        """Add episodes, and note the times of their steps."""
        self.await_updates()
        self._seconds += [each.infos["step_seconds"][1:] for each in episodes]
        super().add(episodes)

    def measured(self) -> Row:
        """Return the median control period, and the 99th percentile of absolute deviations from it [s]."""
        seconds = np.concatenate([np.empty(0), *self._seconds])
        self._seconds.clear()
        if not seconds.size:
            return {}
        period = float(np.median(seconds))
        return {"step_seconds": period, "step_jitter": float(np.quantile(abs(seconds - period), 0.99))}


class SimulatorSource(Source):
    """Steps all environments of a simulator together, without waiting for its device.

    Other sources add whole episodes. This one adds steps; `begin` resets the simulator, which truncates the
    open episodes.
    """

    buffer: DeviceReplayBuffer  # type: ignore[assignment]

    def __init__(self, buffer: DeviceReplayBuffer, env: Any) -> None:
        super().__init__(buffer)  # type: ignore[arg-type]
        self._env, self._simulator = env, env.unwrapped.simulator
        self._observation: Any = None

    def begin(self, seed: int) -> None:
        """Reset all environments, with the seed if the simulator takes one."""
        self._observation = self._simulator.reset(seed if self._simulator.takes_seed else None)

    def collect(self, agent: Agent, remaining: int) -> Collected:
        """Step all environments once."""
        step = self._simulator.step(agent.act(self._observation, explore=True))
        self.buffer.add(step)
        self._observation = step.observation
        ended = step.terminated | step.truncated
        successes = (self._simulator.is_success(step) & ended).sum()
        return Collected(len(ended), successes, ended.sum())

    def close(self) -> None:
        self._env.close()


class WorkerSource(Source):
    """Collects rounds of episodes with the workers of a `Collector`, while the agent learns.

    In a round, each environment of the workers plays one episode. While the agent learns from the episodes of
    one round, the workers play the next round. The result depends on the number of workers, but not on the
    machines that run the workers, on timing, or on restarts of killed workers.
    """

    def __init__(self, buffer: HindsightReplayBuffer, collector: Collector, success_key: str) -> None:
        super().__init__(buffer)
        self._collector, self._success_key = collector, success_key
        self._rounds = collector.rounds()

    def collect(self, agent: Agent, remaining: int) -> Collected:
        """Add one round of episodes to the buffer."""
        if len(self.buffer):  # not in the first round; later, the agent was updated since the last round
            self._collector.update(agent.policy_state())
        episodes = next(self._rounds).episodes
        self.add(episodes)
        return _collected(episodes.num_steps, list(episodes), self._success_key)

    def state_dict(self) -> dict[str, Any]:
        return {"collector": self._collector.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._collector.load_state_dict(state["collector"])

    def close(self) -> None:
        self._collector.close()


class ExploringPolicy:
    """An agent that explores, as the policy of the workers of a `Collector`."""

    def __init__(self, config: Config, spaces: tuple[Any, Any], agent: type[Agent] | None) -> None:
        self._arguments = config, spaces, agent
        self._agent = make_agent(config, *spaces, agent=agent, device="cpu")

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the weights: each worker gets the current weights by `load_state_dict`.
        return ExploringPolicy, self._arguments

    def __call__(self, observations: Any) -> Any:
        """Return the actions for N observations."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as in worker processes; more threads round differently
        try:
            return self._agent.act(observations, explore=True)
        finally:
            torch.set_num_threads(threads)

    def seed(self, seed: int) -> None:
        """Seed the random generator of the exploration."""
        self._agent.seed(seed)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load ``state``, which `Agent.policy_state` of the learner's agent returned."""
        self._agent.load_policy_state(state)


class _KeptOpen(gym.Wrapper[Any, Any, Any, Any]):
    """Ignores ``close``, since the caller owns the environment."""

    def close(self) -> None:
        pass


def make_single_env(
    config: Config, own: gym.Env[Any, Any] | GoalSimulator | EnvFactory | None = None
) -> gym.Env[Any, Any]:
    """Return one environment of a run: ``own``, as in `her_agents.train`, or a new one.

    For a simulator, the result is a `SimulatorEnv`, perhaps in wrappers, and for a robot a `RealRobot`. For
    other environments, a mask of valid actions in the infos is added to the observations, unless the run uses
    recordings, which lack the mask.
    """
    if own is None and config.on_device and isinstance(found := find_env(config.env), str):
        own = partial(_make_on_device, config, found)
    elif own is None:
        options = batch_options(config.env, num_envs=config.num_envs, device=_device(config))
        own = partial(make_env, config.env, disable_env_checker=True, **options | config.env_kwargs)
    own = own.as_env() if isinstance(own, GoalSimulator) else own
    made = _KeptOpen(own) if isinstance(own, gym.Env) else own()
    made = made.as_env() if isinstance(made, GoalSimulator) else made
    is_simulator = hasattr(made.unwrapped, "simulator")
    if config.on_device and not is_simulator:
        raise ValueError(
            f"on_device=True needs a function that returns a GoalSimulator, got {config.env!r}; leave "
            "on_device out (--no-on-device)"
        )
    made = limit_episodes(made, config.max_episode_steps)
    if config.real:
        return made if find_robot(made) else RealRobot(made)
    return made if is_simulator or config.offline or config.demos else with_action_mask(made)


def _make_on_device(config: Config, env_id: str) -> GoalSimulator:
    """Return a simulator of the registered id, whose vector environment must accept a ``device``."""
    if (spec := gym.registry.get(env_id)) is None or spec.vector_entry_point is None:
        raise ValueError(
            f"on_device=True needs an environment of tensors, such as the ids of her_envs, got {env_id!r}; "
            "pass a function that returns a GoalSimulator, or leave on_device out (--no-on-device)"
        )
    options = {"device": _device(config), **config.env_kwargs}
    make = partial(gym.make_vec, env_id, config.num_envs)
    return GoalSimulator.vector_env(call_factory(config.env, make, options))


def _device(config: Config) -> str:
    """Return the device for environments, replay buffer and agent of a run on a simulator."""
    if config.device != "auto":
        return config.device
    return "cuda" if torch.cuda.is_available() else "cpu"


def open_source(
    config: Config,
    env: gym.Env[Any, Any],
    success_key: str,
    *,
    own_env: gym.Env[Any, Any] | GoalSimulator | EnvFactory | None = None,
    own_agent: type[Agent] | None = None,
    saved: Path | None = None,
    **workers: Any,
) -> Source:
    """Return the source of a run, with its replay buffer.

    ``env`` is an environment of the run, whose spaces and time limit are read; ``own_env`` is the argument
    ``env`` of `her_agents.train`. ``saved`` is the saved replay buffer of a resumed run. ``workers`` are
    arguments of the `Collector` that do not change the result.
    """
    if getattr(env.unwrapped, "simulator", None) is not None:
        return _open_simulator(config, env, saved)
    starts, info_keys = None, config.info_keys
    if config.start_share:
        starts = Starts(config, env, find_function("start_state", config.start_state), success_key)
        info_keys = (START, *info_keys)
    make_envs = _vector_env_maker(config, env, own_env, starts)
    envs = env if config.offline or config.workers else make_envs()
    buffer_size = config.buffer_size
    if not config.offline:
        robot = find_robot(env) if config.real else None
        action_key = robot.action_key if robot else None
        info_keys = tuple(sorted({success_key, *info_keys} | ({INTERVENED} if action_key else set())))
        longest = config.max_episode_steps or declared_time_limit(env) or MAX_EPISODE_STEPS
        # The last episodes may end after config.steps.
        buffer_size = min(buffer_size, config.steps + config.num_envs * max(1, config.workers) * longest)

    options, functions = _buffer_options(config)
    if saved is not None:
        buffer = HindsightReplayBuffer.load(saved, envs, buffer_size=buffer_size, **functions)
    else:
        buffer = HindsightReplayBuffer.for_env(
            envs,
            buffer_size=buffer_size,
            prioritized=Priority() if config.prioritized else None,
            info_keys=info_keys,
            demonstrations=read_demonstrations(config, env, info_keys),
            **options,
        )

    if config.offline:
        if saved is None:
            _extend(buffer, config.offline)
        return Source(buffer)
    if config.real:
        recorded = (*info_keys, "step_seconds")
        return RobotSource(buffer, envs, success_key, info_keys=recorded, action_key=action_key)
    if not config.workers:
        source = EnvironmentSource(buffer, envs, success_key, info_keys=info_keys)
        source.starts = starts
        return source
    collector = Collector(
        make_envs,
        ExploringPolicy(config, goal_spaces(env), own_agent),
        num_workers=config.workers,
        seed=config.seed,
        info_keys=info_keys,
        fresh_envs=config.fresh_envs,
        deterministic=config.deterministic,
        **({"backend": "process"} | workers),
    )
    return WorkerSource(buffer, collector, success_key)


def _open_simulator(config: Config, env: gym.Env[Any, Any], saved: Path | None) -> Source:
    """Return the source of a run on a simulator, as `open_source`."""
    simulator: GoalSimulator = env.unwrapped.simulator  # type: ignore[attr-defined]
    options, functions = _buffer_options(config)
    if saved is not None:
        return SimulatorSource(DeviceReplayBuffer.load(saved, simulator, **functions), env)
    options |= {"steps_per_env": max(1, config.buffer_size // simulator.num_envs)}
    options |= {"demonstrations": read_demonstrations(config, env, simulator.info_keys)}
    return SimulatorSource(DeviceReplayBuffer.for_env(simulator, **options), env)


def _buffer_options(config: Config) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return options of the replay buffer, and the functions among them, which files do not contain."""
    named = {"termination": config.termination} | config.goal_options()
    options = {name: find_function(name, value) for name, value in named.items()}
    functions = {name: each for name, each in options.items() if callable(each)}
    return options | {"n_steps": config.n_steps, "gamma": config.gamma, "seed": config.seed}, functions


def _extend(buffer: HindsightReplayBuffer, name: str) -> None:
    """Add the recorded episodes of an offline run."""
    try:
        buffer.extend(open_episodes(name))
    except (OSError, TypeError, ValueError) as error:
        raise ValueError(f"offline={name!r} cannot be used: {error}") from error
    if not buffer.can_sample:
        raise ValueError(f"offline={name!r} must contain recorded episodes, got none")


def _vector_env_maker(config: Config, env: gym.Env[Any, Any], own: Any, starts: Starts | None) -> Any:
    """Return a function without arguments that makes the vector environment of a run."""
    make_one: Callable[[], Any]
    if config.real:
        make_one = partial(_KeptOpen, env)  # the only instance
    elif own is not None or starts is not None or isinstance(env, ActionMaskObservation):
        make_one = partial(make_single_env, config, own)
        make_one = make_one if starts is None else partial(StartWrapper, make_one, starts)
    else:
        by_name = config.env, config.num_envs, config.max_episode_steps
        return partial(make_vector_env, *by_name, **config.env_kwargs)
    return partial(gym.vector.SyncVectorEnv, [make_one] * config.num_envs)


def find_function(option: str, name: Any) -> Any:
    """Return the function if ``name`` has the form module:function; return any other ``name`` unchanged."""
    if not isinstance(name, str) or ":" not in name:
        return name
    try:
        return import_callable(name, option)
    except (BrokenModuleError, EnvNameError) as error:
        raise ValueError(f"cannot load {option} {name!r}: {error}") from error
