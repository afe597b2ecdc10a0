"""Buffers with one fault in their goals, in the relabeled share, or in the choice of transitions."""

from tests.support.replay_specimens.reference import Reference


def achieved(step, key="next_obs"):
    return step[key]["achieved_goal"]


class NextStateOfAnotherStep(Reference, code="HB501"):
    def row(self, step, goal, relabeled):
        other, t = self.rows[self.rng.integers(len(self.rows))]
        return super().row(step | {"next_obs": other[t]["next_obs"]}, goal, relabeled)


class GoalHasNoise(Reference, code="HB101"):
    def goal(self, episode, t):
        goal = super().goal(episode, t)
        return goal + self.rng.normal(0, 0.05, 2) if goal.dtype.kind == "f" else goal


class ChoosesFrom(Reference):
    """Base class of buffers that select other goals for the strategy ``changed``."""

    changed = "future"

    def goal(self, episode, t):
        return self.other_goal(episode, t) if self.strategy == self.changed else super().goal(episode, t)


class FutureOfAnyEpisode(ChoosesFrom, code="HB101"):
    def other_goal(self, episode, t):
        other, s = self.rows[self.rng.integers(len(self.rows))]
        return achieved(other[s])


class FutureWithPresent(ChoosesFrom, code="HB101"):
    def other_goal(self, episode, t):
        s = self.rng.integers(t, len(episode) + 1)
        return achieved(episode[t], "obs") if s == t else achieved(episode[s - 1])


class FutureIsRounded(ChoosesFrom, code="HB190"):
    """Rounding selects the first and the last state half as often as others, as in OGBench."""

    def other_goal(self, episode, t):
        return achieved(episode[round(t + self.rng.random() * (len(episode) - 1 - t))])


class FinalIsLastButOne(ChoosesFrom, code="HB141"):
    """The goal is the last but one state, as in Stable-Baselines 2, issue 666."""

    changed = "final"

    def other_goal(self, episode, t):
        return achieved(episode[-1], "obs")


class EpisodeWithoutLastState(ChoosesFrom, code="HB192"):
    changed = "episode"

    def other_goal(self, episode, t):
        return achieved(episode[self.rng.integers(max(len(episode) - 1, 1))])


class RandomOfOwnEpisode(ChoosesFrom, code="HB193"):
    changed = "random"

    def other_goal(self, episode, t):
        return achieved(episode[self.rng.integers(len(episode))])


class NextGoalKept(Reference, code="HB101"):
    def row(self, step, goal, relabeled):
        return super().row(step, goal, relabeled) | {"next_desired_goal": step["next_obs"]["desired_goal"]}


class GoalOfFirstStep(Reference, code="HB103"):
    def store(self, episode):
        for step in episode:
            step["obs"]["desired_goal"] = episode[0]["obs"]["desired_goal"]
        super().store(episode)


class ShareIsOneMinusOneOverK(Reference, code="HB201"):
    """The share is 1 - 1 / k, as in Tianshou."""

    def is_relabeled(self, episode, t, i, batch_size):
        return self.rng.random() < 1 - 1 / self.k


class OneRowIsNeverRelabeled(Reference, code="HB202"):
    """In batches of one row, none is relabeled, as in Stable-Baselines3."""

    def is_relabeled(self, *arguments):
        return arguments[-1] > 1 and super().is_relabeled(*arguments)


class ShareIsFixed(Reference, code="HB201"):
    def is_relabeled(self, episode, t, i, batch_size):
        return self.rng.random() < 0.8


class LastStepIsNotRelabeled(Reference, code="HB204"):
    """Last steps are never relabeled, as in Stable-Baselines 2."""

    def is_relabeled(self, episode, t, i, batch_size):
        return t + 1 < len(episode) and super().is_relabeled(episode, t, i, batch_size)


class DrawsEpisodes(Reference, code="HB205"):
    def choose(self):
        episode = self.episodes[self.rng.integers(len(self.episodes))]
        return episode, int(self.rng.integers(len(episode)))


class OneStepEpisodesAreLost(Reference, code="HB708"):
    def store(self, episode):
        if len(episode) > 1:
            super().store(episode)


class OneStepEpisodesAreNotRelabeled(Reference, code="HB204"):
    def is_relabeled(self, episode, t, i, batch_size):
        return len(episode) > 1 and super().is_relabeled(episode, t, i, batch_size)
