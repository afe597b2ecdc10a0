"""Buffers with one fault in their goals, in the relabeled share, or in the choice of transitions."""

from tests.support.replay_specimens.reference import Full, Reference


def achieved(step, key="next_obs"):
    return step[key]["achieved_goal"]


class ChoosesFrom(Reference):
    """Base class of buffers that select other goals for the strategy ``changed``."""

    changed = "future"

    def goal(self, episode, t):
        return self.other_goal(episode, t) if self.strategy == self.changed else super().goal(episode, t)


# --- goals -----------------------------------------------------------------------------------------


class GoalHasNoise(Reference, code="HB101"):
    def goal(self, episode, t):
        goal = super().goal(episode, t)
        return goal + self.rng.normal(0, 0.05, 2) if goal.dtype.kind == "f" else goal


class FutureWithPresent(ChoosesFrom, code="HB101"):
    def other_goal(self, episode, t):
        s = self.rng.integers(t, len(episode) + 1)
        return achieved(episode[t], "obs") if s == t else achieved(episode[s - 1])


class FutureIsRounded(ChoosesFrom, code="HB190", scenario="equal episodes"):
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


class GeometricPrefersFarStates(ChoosesFrom, code="HB194"):
    offers = Full.offers | {"geometric"}
    changed = "geometric"

    def other_goal(self, episode, t):
        back = min(int(self.rng.geometric(0.1)) - 1, len(episode) - 1 - t)
        return achieved(episode[len(episode) - 1 - back])


class NextGoalKept(Reference, code="HB101"):
    def row(self, step, goal, relabeled):
        return super().row(step, goal, relabeled) | {"next_desired_goal": step["next_obs"]["desired_goal"]}


class GoalOfFirstStep(Reference, code="HB103"):
    def store(self, episode):
        for step in episode:
            step["obs"]["desired_goal"] = episode[0]["obs"]["desired_goal"]
        super().store(episode)


# --- long episodes, full buffers -------------------------------------------------------------------


class OffsetIsUint8(ChoosesFrom, code="HB190"):
    def other_goal(self, episode, t):
        return achieved(episode[t + (int(self.rng.integers(len(episode) - t)) & 255)])


class LastStateOfLongEpisodesIsNoGoal(ChoosesFrom, code="HB190"):
    def other_goal(self, episode, t):
        end = len(episode) - (len(episode) > 12)
        return achieved(episode[self.rng.integers(t, max(end, t + 1))])


class RandomIsOfTheFirstEpisodes(ChoosesFrom, code="HB193", scenario="used buffer"):
    """Goals are no longer stored when the buffer is full."""

    changed, first = "random", ()

    def other_goal(self, episode, t):
        goals = [achieved(step) for each in self.episodes for step in each]
        if not self.is_full or not self.first:
            self.first = goals
        return self.first[self.rng.integers(len(self.first))]


class FinalIsOfThePreviousEpisodeWhenFull(ChoosesFrom, code="HB121"):
    changed = "final"

    def other_goal(self, episode, t):
        place = next(i for i, each in enumerate(self.episodes) if each is episode)
        return achieved(self.episodes[max(place - self.is_full, 0)][-1])


# --- relabeled share -------------------------------------------------------------------------------


class ShareIsOneMinusOneOverK(Reference, code="HB201"):
    """The share is 1 - 1 / k, as in Tianshou."""

    def is_relabeled(self, episode, t, i, batch_size):
        return self.rng.random() < 1 - 1 / self.k


class OneRowIsNeverRelabeled(Reference, code="HB202"):
    """In batches of one row, none is relabeled, as in Stable-Baselines3."""

    def is_relabeled(self, *arguments):
        return arguments[-1] > 1 and super().is_relabeled(*arguments)


class LastStepIsNotRelabeled(Reference, code="HB204"):
    """Last steps are never relabeled, as in Stable-Baselines 2."""

    def is_relabeled(self, episode, t, i, batch_size):
        return t + 1 < len(episode) and super().is_relabeled(episode, t, i, batch_size)


class SecondEnvironmentIsNotRelabeled(Reference, code="HB204", scenario="interleaved steps"):
    def end_episode(self, env_index=0):
        self.open[env_index][0]["env_index"] = env_index
        super().end_episode(env_index)

    def is_relabeled(self, episode, t, i, batch_size):
        return episode[0]["env_index"] != 1 and super().is_relabeled(episode, t, i, batch_size)


class OldEpisodesAreRelabeledLess(Reference, code="HB204", scenario="ends of episodes"):
    def is_relabeled(self, episode, t, i, batch_size):
        is_old = episode[0]["number"] < self.steps_stored - 80
        return self.rng.random() < (0.3 if is_old else self.k / (self.k + 1))


# --- choice of transitions -------------------------------------------------------------------------


class DrawsEpisodes(Reference, code="HB205", scenario="different lengths"):
    def choose(self):
        episode = self.episodes[self.rng.integers(len(self.episodes))]
        return episode, int(self.rng.integers(len(episode)))


class OneRandomNumberPerBatch(ChoosesFrom, code="HB206"):
    def sample(self, batch_size):
        self.place = self.rng.random()
        return super().sample(batch_size)

    def other_goal(self, episode, t):
        return achieved(episode[t + int(self.place * (len(episode) - t))])


class EpisodesAreRelabeledTogether(Reference, code="HB206"):
    """All rows of an episode in a batch are relabeled, or none, as in Tianshou."""

    def sample(self, batch_size):
        self.decisions = {}
        return super().sample(batch_size)

    def is_relabeled(self, episode, t, i, batch_size):
        return self.decisions.setdefault(id(episode), super().is_relabeled(episode, t, i, batch_size))


class WholeEpisodesAreDrawn(Reference, code="HB206"):
    offers = Reference.offers - {"save generator"}
    drawn = ()

    def sample(self, batch_size):
        self.drawn = []
        return super().sample(batch_size)

    def choose(self):
        if not self.drawn:
            episode = self.episodes[self.rng.integers(len(self.episodes))]
            self.drawn = [(episode, t) for t in self.rng.permutation(len(episode)).tolist()]
        return self.drawn.pop()


class EachStepHasOneGoal(ChoosesFrom, code="HB206"):
    """The goal of a step is selected once for all its rows."""

    def other_goal(self, episode, t):
        if "goal" not in episode[t]:
            episode[t]["goal"] = achieved(episode[self.rng.integers(t, len(episode))])
        return episode[t]["goal"]
