"""``her record``: record episodes of an environment and a policy in an archive."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
from tyro.conf import FlagCreatePairsOff, UseAppendAction, arg

from her_wrappers import SinkError
from her_wrappers.commands import terminal
from her_wrappers.commands.policies import find_policy, is_run
from her_wrappers.data.trees import map_tree
from her_wrappers.goals.action_masks import valid_action, with_action_mask
from her_wrappers.goals.environments import absolute_name, make_env, present_folder
from her_wrappers.goals.episode_limit import limit_episodes
from her_wrappers.goals.real_robot import find_robot
from her_wrappers.goals.success_flag import FLAG_NAMES
from her_wrappers.recording.archive import EpisodeArchive
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.recorder import EpisodeRecorder
from her_wrappers.support.arguments import require_number
from her_wrappers.support.policies import add_noise, choose_action

MAX_EPISODES_PER_ROUND = 10  # maximum number of episodes that a worker plays per round

MAX_TRIES = 10
"""With ``--only-successes``, maximum number of episodes played per success that is to be recorded."""


def record(
    env: terminal.Environment,
    *,
    out: Annotated[Path, arg(metavar="FOLDER")],
    episodes: terminal.Positive = 100,
    policy: str = "random",
    noise: float = 0.0,
    only_successes: FlagCreatePairsOff[bool] = False,
    seed: terminal.NotNegative | None = None,
    option: terminal.EnvOptions = (),
    info_keys: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="KEY")] = (),
    max_episode_steps: terminal.Positive | None = None,
    workers: terminal.NotNegative = 0,
    backend: terminal.Backend = "process",
    address: terminal.Address = None,
    timeout: terminal.Timeout = None,
    deterministic: bool = True,
) -> int:
    """Record episodes in an archive. Ctrl-C stops the recording and keeps the recorded episodes.

    For example:

    - her record her_envs/PointReach-v0 --out runs/reach
    - her record her_envs/BitFlipping-v0 -o n_bits=5 --episodes 1000 --out runs/bits --seed 0
    - her record her_envs/PointPush-v0 --policy my_agents:pusher --out runs/push
    - her record her_envs/PointPush-v0 --policy pusher.py:push --noise 0.1 --only-successes --out demos

    Args:
        out: Folder of the archive. If the archive exists, episodes are added to it.
        episodes: Number of episodes to record.
        policy: random, the folder of a run, a checkpoint, a policy file, module:function or
            path/to/file.py:function. Random actions respect a mask of valid actions; with workers, the mask
            must be in the observation.
        noise: Noise of the policy's actions. For a Box with bounds, the standard deviation relative to half
            of the range; for other action spaces, the probability of a random action.
        only_successes: Record only episodes whose last step is a success.
        seed: Seed of the episodes, of the noise and of the random policy; by default a random one.
        info_keys: Info key to record; is_success is always recorded if the environment returns it.
        max_episode_steps: Steps after which episodes are truncated; by default the environment's own limit.
        workers: Number of workers; 0 records in this process.
        deterministic: Whether each worker plays its first episodes twice, to check that the same seed gives
            the same episodes; pass --no-deterministic for a simulator that cannot repeat an episode.
    """
    from her_agents.training.evaluation import play_episode

    options, env, folder = terminal.parse_options(option), absolute_name(env), out.absolute()
    made = make_env(env, **options)
    needs_mask = policy == "random" or is_run(policy)
    act = find_policy(policy, with_action_mask(made) if needs_mask else made)
    keys = _recorded_keys(made, lambda: make_env(env, **options), info_keys)
    robot = find_robot(made)
    if workers and robot:
        raise terminal.CommandError("a RealRobot cannot be copied to other processes; remove --workers")
    flag = next((key for key in FLAG_NAMES if key in keys), None) if only_successes else ""
    if flag is None:
        raise terminal.CommandError(
            "--only-successes needs a success flag, but the infos have no key 'is_success'; if the flag is "
            "called 'success', add --info-keys success"
        )
    with terminal.exits_with(2, TypeError, ValueError):
        require_number("--noise", noise, "[0, inf)")
        archive = EpisodeArchive(folder, env=made)
    first, interrupted = len(archive), False
    first_seed = None if seed is None else seed + first  # not used by earlier commands
    if seed is not None and only_successes and first:  # how many more episodes were played is unknown
        first_seed = int(np.random.SeedSequence((seed, first)).generate_state(1)[0])
    try:
        with archive, terminal.progress("recording", episodes, "episodes") as advance:
            recording = _Recording(archive, episodes, flag, advance)
            if workers:
                from her_wrappers.collecting import Collector, CollectorError

                # The workers import the user's modules from the current folder too.
                with terminal.exits_with(2, ImportError, OSError, TypeError, ValueError), present_folder():
                    collector = Collector(
                        lambda: limit_episodes(make_env(env, **options), max_episode_steps),
                        _Actor(act, made.action_space, noise),
                        num_workers=workers,
                        backend=backend,
                        address=address,
                        timeout=timeout,
                        seed=secrets.randbits(63) if first_seed is None else first_seed,
                        info_keys=keys,
                        deterministic=deterministic,
                    )
                per_round = min(MAX_EPISODES_PER_ROUND, -(-episodes // workers))
                with collector, terminal.exits_with(3, CollectorError):
                    for each in collector.rounds(per_round):
                        recording.add_episodes(each.episodes)
                        if recording.is_complete():
                            break
            else:
                made.action_space.seed(first_seed)
                limited = limit_episodes(made, max_episode_steps)
                play = _Actor(act, made.action_space, noise)
                recorder = EpisodeRecorder(
                    limited, recording, info_keys=keys, action_key=robot.action_key if robot else None
                )
                with recorder:
                    played = with_action_mask(recorder) if needs_mask else recorder
                    while not recording.is_complete():
                        episode_seed = None if first_seed is None else first_seed + recording.played
                        play.begin(episode_seed)
                        play_episode(played, play.act, episode_seed, needs_flag=False)
    except KeyboardInterrupt:
        interrupted = True
    except (SinkError, OSError) as error:
        cause = error.__cause__ if isinstance(error, SinkError) else error
        raise terminal.CommandError(f"cannot record to {out}: {cause}", 3) from error
    print(
        f"{'interrupted: ' if interrupted else ''}{len(archive) - first} episodes added; "
        f"{out} has {len(archive)} episodes of {archive.num_steps} steps"
    )
    return 130 if interrupted else 0


def _recorded_keys(made: Any, make_other: Callable[[], Any], info_keys: Sequence[str]) -> list[str]:
    """Return the keys of the infos to record; raise CommandError for a key that the infos lack."""
    info = dict.fromkeys(["is_success", *info_keys])
    if not find_robot(made):  # a robot gets no second instance and no random action
        with make_other() as other:  # not `made`, which gets its own seed
            observation, info = other.reset(seed=0)
            action, rng = other.action_space.sample(), np.random.default_rng(0)
            info = other.step(valid_action(action, other, observation, info, rng))[-1]
    if unknown := [key for key in info_keys if key not in info]:
        raise terminal.CommandError(
            f"--info-keys must name keys of the infos, got {unknown[0]!r}; the infos have keys {sorted(info)}"
        )
    return list(dict.fromkeys(["is_success"] * ("is_success" in info) + [*info_keys]))


class _Recording:
    """Adds up to ``count`` episodes to an archive; if ``flag`` is an info key, only successes."""

    def __init__(self, archive: EpisodeArchive, count: int, flag: str, advance: Callable[[], None]) -> None:
        self._archive, self._count, self._flag, self._advance = archive, count, flag, advance
        self._added = self.played = 0

    def add_episodes(self, episodes: Sequence[Episode]) -> None:
        self.played += len(episodes)
        kept = [each for each in episodes if not self._flag or each.infos[self._flag][-1]]
        for each in kept[: self._count - self._added]:
            self._archive.add_episode(each)
            self._added += 1
            self._advance()

    def is_complete(self) -> bool:
        """Return whether ``count`` episodes are recorded; raise CommandError if too few were successes."""
        if self._added < self._count and self.played >= MAX_TRIES * self._count:
            found = f"only {self._added} of {self.played} episodes succeeded, but {self._count} must succeed"
            raise terminal.CommandError(f"{found}; pass a better --policy, or a lower --noise", 3)
        return self._added == self._count


class _Actor:
    """Chooses actions for one environment: those of the policy, with noise, or random ones if it is None."""

    def __init__(self, policy: terminal.Policy | None, space: gym.Space[Any], noise: float) -> None:
        self._policy, self._space, self._noise = policy, space, noise
        self._rng, self._env = np.random.default_rng(), gym.Env[Any, Any]()
        self._env.action_space = space  # for `valid_action`: a policy of a worker has no environment

    def begin(self, seed: int | None) -> None:
        getattr(self._policy, "reset", lambda: None)()
        self._rng = np.random.default_rng(seed)

    def seed(self, seed: int) -> None:
        """Call `begin`, then seed the policy if it has ``seed``. Without a policy, seed the action space."""
        self.begin(seed)
        getattr(self._policy or self._space, "seed", int)(seed)

    def act(self, observation: Any) -> Any:
        """Return the action for the observation of one environment."""
        if self._policy is None:
            action = self._space.sample()
        else:
            action = choose_action(self._policy, observation, self._space)
            if not self._noise:
                return action
            action = add_noise(action, self._space, self._noise, self._rng)
        return valid_action(action, self._env, observation, {}, self._rng)

    def __call__(self, observations: Any) -> Any:
        """Return a batch of one action for a batch of one observation, as `Collector` needs."""
        action = self.act(map_tree(lambda leaf: leaf[0], observations))
        return map_tree(lambda leaf: np.asarray(leaf)[None], action)
