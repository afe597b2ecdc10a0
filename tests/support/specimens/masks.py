"""Right environments in which an action that the mask excludes raises an error."""

from tests.support.specimens.reach import Reach
from tests.support.specimens.unusual_observations import ActionMask


class Strict(ActionMask):
    """The mask is in the observation."""

    def move(self, action):
        assert self.mask()[action], action
        return super().move(action)


class MaskInInfo(Strict):
    """The mask is in the infos."""

    make_space, observe = Reach.make_space, Reach.observe

    def inform(self, observation):
        return super().inform(observation) | {"action_mask": self.mask()}


class MaskMethod(Strict):
    """The mask is the result of a method, as sb3-contrib expects."""

    make_space, observe = Reach.make_space, Reach.observe

    def action_masks(self):
        return self.mask().astype(bool)
