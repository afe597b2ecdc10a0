"""Rules GD6xx: the logged metrics of a run show that its critic or its actor does not learn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from her_wrappers.diagnosis.facts import SOLVED, Facts, rule
from her_wrappers.rules import Violation


@rule(
    "GD601",
    fix="first fix the findings about goals; relabel with later goals (--goal-selection-strategy future); "
    "lower the learning rate (--agent learning_rate=3e-4)",
    threshold="95 % of -1 / (1 - gamma); then no transition of a batch is followed by a success",
    source="clipping of targets: arXiv 1802.09464, appendix A",
    needs=("history", "gamma", "clip_targets", "unsolved"),
)
def values_at_lower_bound(facts: Facts) -> Iterator[Violation]:
    """The mean Q value is at the lowest value that clipped targets allow: all goals look unreachable."""
    for value in facts.column("q_mean")[-1:]:
        if -1.5 * facts.horizon < value <= -0.95 * facts.horizon:
            yield Violation(
                f"q_mean is {value:.4g}, near the lower bound of clipped targets, {-facts.horizon:.4g}"
            )


@rule(
    "GD602",
    fix="clip targets if rewards lie in [-1, 0] (--clip-targets); lower the learning rate "
    "(--agent learning_rate=3e-4); lower tau (--agent tau=0.005)",
    threshold="twice the largest absolute reward divided by (1 - gamma), since the entropy of SAC adds to "
    "the value",
    source="arXiv 2312.05787 (bounded values with HER)",
    needs=("history", "gamma"),
)
def values_diverge(facts: Facts) -> Iterator[Violation]:
    """The mean Q value is larger than any return that the rewards allow: the critic diverges."""
    bound = 2 * _largest_reward(facts) * facts.horizon
    for value in facts.column("q_mean")[-1:]:
        if abs(value) > bound:
            yield Violation(f"q_mean is {value:.4g}, and twice the largest possible return is {bound:.4g}")


def _largest_reward(facts: Facts) -> float:
    """Return the largest absolute reward. Without episodes, assume rewards of -1 and 0, and return 1."""
    return max(1e-6, float(np.abs(facts.rewards).max())) if len(facts) else 1.0


@rule(
    "GD603",
    meaning="The temperature of SAC is so low that the agent stopped exploring before it succeeded, or so "
    "high that the entropy outweighs the rewards.",
    fix="keep the temperature constant (sac, tqc: --agent temperature=0.05 --agent learn_temperature=false)",
    threshold="a temperature below 0.005 (a warning) or 0.0001 (an error), relative to the largest absolute "
    "reward; or above 10, where one unit of entropy is worth ten steps",
    source="SAC: arXiv 1812.05905; docs/results/ablation.md",
    needs=("history", "unsolved"),
)
def temperature_unsuitable(facts: Facts) -> Iterator[Violation]:
    largest = _largest_reward(facts)
    for temperature in facts.column("temperature")[-1:]:
        if not 0.005 * largest <= temperature <= 10:
            yield Violation(
                f"the temperature is {temperature:.3g}, not between {0.005 * largest:.2g} and 10",
                severity="error" if not 0.0001 * largest <= temperature <= 10 else "warning",
            )


@rule(
    "GD605",
    severity="warning",
    fix="change the collected data, not the updates: explore more, use nearer goals, or add demonstrations",
    threshold="the last loss is below a fifth of the largest, and the success rate is at most 5 % in all of "
    "at least 5 evaluations",
    source="TianhongDai/hindsight-experience-replay #26, hill-a/stable-baselines #424",
    needs=("history", "unsolved"),
)
def critic_settles_without_success(facts: Facts) -> Iterator[Violation]:
    """The loss of the critic fell, but the success rate stayed flat: the critic predicts failure well."""
    rates = facts.column("success_rate")
    losses = facts.column("critic_loss") if facts.column("critic_loss").size else facts.column("loss")
    if len(rates) < 5 or len(losses) < 5 or rates.max() > 0.05:
        return
    if losses[-1] < losses.max() / 5:
        yield Violation(
            f"the loss fell from {losses.max():.3g} to {losses[-1]:.3g}, and the best success rate of "
            f"{len(rates)} evaluations is {rates.max():.2f}"
        )


@rule(
    "GD606",
    fix="update the agent more often (--updates-per-step 0.5); enlarge the batches (--batch-size 256)",
    threshold="fewer than 5 sampled transitions for each step (a warning), fewer than 1 (an error); the "
    "default of `her train` is 32",
    source="openai/baselines her/experiment/config.py: 40 updates of 256 x 19 for 38 episodes of 50 steps",
    needs=("history", "unsolved"),
)
def few_updates(facts: Facts) -> Iterator[Violation]:
    """The agent is updated too rarely for the steps that it collects."""
    steps, updates, batch = facts.column("env_steps"), facts.column("updates"), facts.batch_size
    if not steps.size or not updates.size or not batch or steps[-1] <= 0:
        return
    found = updates[-1] * batch / steps[-1]
    if found < 5:
        yield Violation(
            f"{updates[-1]:,.0f} updates of {batch} transitions sample each of {steps[-1]:,.0f} steps "
            f"{found:.2g} times on average",
            severity="error" if found < 1 else "warning",
        )


@rule(
    "GD607",
    fix="compare the two environments and their options; check that the deterministic action is inside the "
    "action space; lower the temperature (sac, tqc: --agent temperature=0.05 --agent "
    "learn_temperature=false)",
    threshold="a difference of 0.4 on average over the last 3 evaluations; exploration lowers the success "
    "rate, and does not raise it",
    needs=("history",),
)
def evaluation_disagrees(facts: Facts) -> Iterator[Violation]:
    """Episodes succeed while collecting, but not in evaluations."""
    rows = [row for row in facts.history if "collected_success" in row and "success_rate" in row][-3:]
    if len(rows) == 3:
        collected, evaluated = (
            float(np.mean([row[name] for row in rows])) for name in ("collected_success", "success_rate")
        )
        if collected - evaluated > 0.4 and evaluated < SOLVED:
            yield Violation(
                f"the success rate is {collected:.2f} while collecting, and {evaluated:.2f} in evaluations"
            )


@rule(
    "GD608",
    fix="look for NaN in the data (GD502); lower the learning rate (--agent learning_rate=3e-4); continue "
    "from best.pt",
    threshold="a single value",
    needs=("history",),
)
def losses_not_finite(facts: Facts) -> Iterator[Violation]:
    """A loss or a value of the run is NaN or infinite; the weights of the agent are lost."""
    for row in facts.history:
        wrong = [name for name, value in row.items() if not np.isfinite(value)]
        if wrong:
            yield Violation(
                ", ".join(f"{name} is {row[name]}" for name in wrong),
                place=f"epoch {row.get('epoch', 0):g}",
            )
            return


@rule(
    "GD609",
    fix="omit the option, so that its default is used",
    threshold="fewer than 20 % relabeled transitions, a horizon 1 / (1 - gamma) of over 1,000 steps and 20 "
    "times the episode length, or a value outside the usual range that her_agents declares; an error for no "
    "relabeled transitions with sparse rewards, for gamma 1, and beyond 10 times the range",
    needs=("options", "unsolved"),
)
def option_far_from_default(facts: Facts) -> Iterator[Violation]:
    """An option of the run is far outside the range in which agents learn."""
    share, gamma = facts.relabeled_share or 0, facts.gamma
    if share < 0.2:
        yield Violation(
            f"{share:.0%} of the transitions are relabeled; the default is 80 %",
            subject="her" if share == 0 else "goal_selection_strategy",
            severity="error" if share == 0 and facts.num_rewards <= 2 else "warning",
        )
    limit = facts.time_limit or max([*facts.lengths, *facts.column("mean_length")], default=np.inf)
    if gamma is not None and facts.horizon > max(1000, 20 * limit):
        yield Violation(
            f"gamma={gamma:g} has a horizon of {facts.horizon:,.0f} steps, far longer than an episode (at "
            f"most {limit:.0f}); the default of gamma is 0.98",
            subject="gamma",
            severity="error" if gamma == 1 else "warning",
        )
    for name, (value, default, usual) in facts.options.items():
        if usual is None or (name == "buffer_size" and value >= (facts.options["steps"][0] or np.inf)):
            continue  # a buffer can contain the whole run
        low, high = usual
        numbers = [each for each in np.ravel(value).tolist() if isinstance(each, int | float)]
        for number in [each for each in numbers if not low <= each <= high][:1]:
            yield Violation(
                f"{name} is {value}; usual values are {low:g} to {high:g}, and the default is {default}",
                subject=name,
                severity="warning" if low / 10 <= number <= 10 * high else "error",
            )


@rule(
    "GD610",
    severity="info",
    fix="see which goals fail with `her evaluate`; change one option at a time, as in docs/tuning.md",
    threshold="the last third of at least 10 evaluations is 0.05 above the first, but at the slope of the "
    "last half, a success rate of 0.9 needs more evaluations than the run has",
    needs=("history", "unsolved"),
)
def success_rises_slowly(facts: Facts) -> Iterator[Violation]:
    """The success rate rises, but so slowly that the run needs more than twice its steps."""
    rates = facts.column("success_rate")
    if len(rates) >= 10:
        first, latest = (float(part.mean()) for part in np.array_split(rates, 3)[::2])
        half = rates[len(rates) // 2 :]
        slope = float(np.polyfit(np.arange(len(half)), half, 1)[0])
        if latest - first >= 0.05 and 0 < slope < (SOLVED - latest) / len(rates):
            found = (
                f"the success rate rose from {first:.2f} to {latest:.2f} (thirds of {len(rates)} evaluations)"
            )
            yield Violation(f"{found}, lately by {slope:.2g} for each evaluation")
