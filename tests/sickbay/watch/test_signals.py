"""How seldom an incident is told of a device that flaps, and how soon of one that had been quiet."""

from __future__ import annotations

from sickbay.model.contracts import Observed
from sickbay.model.observation import Health
from tests.sickbay.watch.flips import Desk


def test_ten_minutes_of_flapping_are_a_few_words() -> None:
    """The first goes at once, then one in 30 s, and ever fewer; each stands for those that it came after."""
    desk = Desk()
    sent = [(second, word.count) for second in range(5, 601, 5) if (word := desk.flip(second))]
    assert sent == [(5, 1), (35, 6), (95, 12), (215, 24), (455, 48)]


def test_what_is_worse_than_was_ever_told_does_not_wait() -> None:
    """Nor does a fence that is lost, however long the pause has become."""
    desk = Desk(known=Health.UNKNOWN)
    for second in range(0, 300, 5):
        desk.say(second, Observed(health=Health.HEALTHY if second % 10 else Health.UNKNOWN))
    assert desk.say(301, Observed(health=Health.UNHEALTHY)) is not None
    assert desk.say(302, Observed(health=Health.UNHEALTHY)) is None
    assert desk.say(303, Observed(health=Health.UNHEALTHY, fence_lost=True)) is not None


def test_after_a_quiet_time_all_is_as_at_first() -> None:
    """Bad news after a soak goes at once, and what follows it after 30 s."""
    desk = Desk()
    for second in range(5, 601, 5):
        desk.flip(second)
    assert desk.sends(694) is None
    assert desk.sends(695) is not None
    assert desk.flip(1200) is not None
    assert desk.flip(1229) is None
    assert desk.flip(1231) is not None
