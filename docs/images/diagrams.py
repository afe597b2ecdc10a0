"""Draw the diagrams of the documentation: python docs/images/diagrams.py.

The diagrams are dark on white. On dark pages of the site, a filter inverts them.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path

BLUE, GREEN, RED, GRAY = "#2855b8", "#1f7a4a", "#b3362b", "#8a8f98"
FAINT, WHITE = "#c9ced6", "#ffffff"
STYLE = """
text { font: 14px system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; fill: #20242c; }
.small { font-size: 12px; fill: #5b616b; }
.name { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 13px; }
.title { font-weight: 600; }
.middle { text-anchor: middle; }
"""


class Drawing:
    """Shapes on a white card 640 pixels wide; coordinates are pixels from its upper left corner."""

    def __init__(self, height: int, description: str) -> None:
        self._height = height
        self._parts = [f"<title>{description}</title>", f"<style>{STYLE}</style>"]
        self.box((0.5, 0.5), (639, height - 1), WHITE, "#d9dce1")

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        """Write text with the base line at ``y``; ``_{i}`` makes a subscript i."""
        marked = re.sub(r"_\{(.*?)\}", r'<tspan baseline-shift="sub" font-size="10">\1</tspan>', text)
        self._parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{marked}</text>')

    def box(self, corner: tuple[float, float], size: tuple[float, float], fill: str, stroke: str) -> None:
        """Draw a rectangle; a gray stroke is dashed."""
        dashes = ' stroke-dasharray="4 3"' if stroke == GRAY else ""
        (x, y), (width, height) = corner, size
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" '
            f'fill="{fill}" stroke="{stroke}"{dashes}/>'
        )

    def dot(self, x: float, y: float, radius: float, fill: str, stroke: str = "none") -> None:
        """Draw a disc."""
        self._parts.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="{radius:.3g}" '
            f'fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>'
        )

    def arrow(self, start: tuple[float, float], end: tuple[float, float], color: str) -> None:
        """Draw a straight arrow that ends at the edge of the dot at ``end``."""
        across, down = end[0] - start[0], end[1] - start[1]
        long, turned = math.hypot(across, down) - 6, math.degrees(math.atan2(down, across))
        self._parts.append(
            f'<g transform="translate({start[0]} {start[1]}) rotate({turned:.1f})" fill="{color}">'
            f'<rect y="-0.8" width="{long - 5:.1f}" height="1.6"/><path d="M{long:.1f} 0l-7 -4v8z"/></g>'
        )

    def write(self, name: str) -> None:
        """Write the file into the folder of this program."""
        begin = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {self._height}" width="640">'
        (Path(__file__).parent / name).write_text("\n".join([begin, *self._parts, "</svg>\n"]))


WAY = [(60, 180), (95, 140), (140, 125), (180, 145), (220, 130), (255, 150)]
"""The positions of an episode."""


def hindsight() -> None:
    """Draw an episode as recorded, and with a goal that it reached."""
    drawing = Drawing(250, "An episode that misses its goal, and the same with a goal that it reached")
    drawing.text(20, 32, "as it was recorded", "title")
    _episode(drawing, 0, len(WAY) - 1)
    drawing.dot(235, 80, 13, "none", RED)
    drawing.text(235, 58, "desired goal", "small middle")
    drawing.text(20, 232, "The goal was missed: every reward is -1.", "small")
    drawing.text(340, 32, "relabeled in hindsight", "title")
    _episode(drawing, 320, 4)
    drawing.dot(320 + WAY[4][0], WAY[4][1], 13, "none", GREEN)
    drawing.text(320 + WAY[4][0], WAY[4][1] - 22, "new goal", "small middle")
    drawing.text(340, 232, "The step that reaches it gets the reward 0.", "small")
    drawing.write("hindsight.svg")


def _episode(drawing: Drawing, left: int, last: int) -> None:
    """Draw states and steps; those after ``last`` are faint."""
    places = [(left + x, y) for x, y in WAY]
    for i, (here, there) in enumerate(pairwise(places)):
        drawing.arrow(here, there, BLUE if i < last else FAINT)
    for i, place in enumerate(places):
        drawing.dot(*place, 4.5, BLUE if i <= last else FAINT)
    drawing.text(left + 48, 204, "s_{0}")
    drawing.text(left + 250, 174, "s_{T}")


def goal_sets() -> None:
    """Draw the states that each strategy may choose for step 2 of an episode of 7 steps."""
    drawing = Drawing(
        292, "Which achieved goals each strategy may choose for step 2 of an episode of 7 steps"
    )
    places = [170 + 62 * state for state in range(8)]
    for state, x in enumerate(places):
        drawing.text(x, 40, f"s_{{{state}}}", "middle")
    drawing.box((places[2] - 14, 52), (90, 24), "#e8eefb", BLUE)
    drawing.text(places[2] + 31, 69, "step 2", "small middle")
    odds = {
        "future": dict.fromkeys(range(3, 8), 0.5),
        "final": {7: 1.0},
        "episode": dict.fromkeys(range(1, 8), 0.4),
        "geometric": {state: 0.7 ** (state - 3) for state in range(3, 8)},
    }
    for row, (name, chosen) in enumerate(odds.items()):
        y = 106 + 38 * row
        drawing.text(24, y + 5, name, "name")
        for state, x in enumerate(places):
            chosen_at = chosen.get(state)
            drawing.dot(x, y, 4, WHITE, FAINT)
            drawing.dot(x, y, 11 * math.sqrt(chosen_at or 0), GREEN)
    drawing.text(24, 263, "random", "name")
    drawing.text(places[0] - 6, 263, "the state after any stored step, of this episode or another", "small")
    drawing.write("goal_sets.svg")


EVENTS = {
    230: ("reaches", "the new goal", True),
    350: ("had reached", "the old goal only", False),
    470: ("crashes", "", True),
    580: ("none", "of these", False),
}
"""By x coordinate: two lines of text, and whether a task that ends at goals and crashes terminates there."""

MODES = {
    '"recompute"': (True, False, True, False),
    '"success"': (True, False, True, False),
    '"keep"': (False, True, True, False),
    '"never"': (False, False, False, False),
}
"""Whether a relabeled row terminates at each event."""


def terminations() -> None:
    """Draw which relabeled rows terminate, by termination mode and event."""
    drawing = Drawing(262, "Whether a relabeled row terminates, by termination mode and event of its step")
    for x, (first, second, _) in EVENTS.items():
        drawing.text(x, 34, first, "small middle")
        drawing.text(x, 51, second, "small middle")
    for row, (mode, ends) in enumerate(MODES.items()):
        y = 88 + 38 * row
        drawing.text(24, y + 5, mode, "name")
        for (x, event), end in zip(EVENTS.items(), ends, strict=True):
            color = BLUE if end == event[2] else RED
            drawing.dot(x, y, 9, color if end else WHITE, color)
    drawing.dot(30, 240, 6, BLUE, BLUE)
    drawing.text(42, 244, "terminates", "small")
    drawing.dot(140, 240, 6, WHITE, BLUE)
    drawing.text(152, 244, "continues", "small")
    drawing.dot(236, 240, 6, RED, RED)
    drawing.dot(254, 240, 6, WHITE, RED)
    drawing.text(266, 244, "differs from a task that ends at goals and at crashes", "small")
    drawing.write("terminations.svg")


PLAIN, ENDING, NO_TRANSITION = ("#e8eefb", BLUE), ("#e6f4ec", GREEN), ("#f4f4f5", GRAY)
BEFORE, LAST = ("s_{T-1}", "", PLAIN), ("s_{T}", "terminated", ENDING)
CALLS = {
    "NEXT_STEP": [BEFORE, LAST, ("s'_{0}", "no transition", NO_TRANSITION), ("s'_{1}", "", PLAIN)],
    "SAME_STEP": [
        BEFORE,
        ("s'_{0}", "final_obs: s_{T}", ENDING),
        ("s'_{1}", "", PLAIN),
        ("s'_{2}", "", PLAIN),
    ],
    "DISABLED": [BEFORE, LAST, ("s'_{0}", "from reset", NO_TRANSITION), ("s'_{1}", "", PLAIN)],
}
"""For each call: the returned state, a note, and the colors."""


def autoreset() -> None:
    """Draw the results of the calls around the end of an episode, in each mode."""
    drawing = Drawing(322, "Results of the calls around the end of an episode, in the three autoreset modes")
    for i, call in enumerate(("step", "step", "next call", "step")):
        drawing.text(196 + 122 * i, 34, call, "small middle")
    for row, (mode, calls) in enumerate(CALLS.items()):
        y = 50 + 80 * row
        drawing.text(20, y + 32, mode, "name")
        for i, (state, below, (fill, stroke)) in enumerate(calls):
            x = 140 + 122 * i
            drawing.box((x, y), (112, 54), fill, stroke)
            drawing.text(x + 56, y + (22 if below else 31), state, "middle")
            drawing.text(x + 56, y + 42, below, "small middle")
    drawing.text(
        20,
        300,
        "A recorder records the same episode in all three modes: s_{0} … s_{T}, T transitions.",
        "small",
    )
    drawing.write("autoreset.svg")


STATES = ("initial", "initial", "after 0", "after 1", "after 2")
"""The state of the policy in each round: the initial one, or the one after learning from a round."""


def rounds() -> None:
    """Draw what workers and learner do at the same time, and where policy states come from."""
    drawing = Drawing(252, "While the learner learns from one round, the workers play the next one")
    width = 100
    drawing.text(20, 79, "workers", "title")
    drawing.text(20, 179, "learner", "title")
    for number, state in enumerate(STATES):
        x = 110 + width * number
        drawing.box((x, 44), (width - 8, 60), *PLAIN)
        drawing.text(x + 46, 69, f"play {number}", "middle")
        drawing.text(x + 46, 89, f"policy: {state}", "small middle")
        if number == 0:
            continue
        drawing.box((x, 144), (width - 8, 60), *ENDING)
        drawing.text(x + 46, 179, f"learn {number - 1}", "middle")
        drawing.arrow((x - 20, 104), (x + 16, 150), GREEN)
        if number < len(STATES) - 1:
            drawing.arrow((x + 76, 144), (x + width + 12, 98), BLUE)
    drawing.text(110, 30, "time", "small")
    drawing.arrow((140, 26), (604, 26), GRAY)
    drawing.arrow((110, 230), (142, 230), GREEN)
    drawing.text(146, 234, "episodes", "small")
    drawing.arrow((240, 230), (272, 230), BLUE)
    drawing.text(276, 234, "policy state", "small")
    drawing.write("rounds.svg")


if __name__ == "__main__":
    for draw in (hindsight, goal_sets, terminations, autoreset, rounds):
        draw()
