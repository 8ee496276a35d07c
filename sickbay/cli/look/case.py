"""Everything that is read to speak of one device: the cluster first, then Temporal if it answers."""

from __future__ import annotations

from dataclasses import dataclass

from k8s import sights
from k8s.control import Control
from sickbay.cli.look import pausing
from sickbay.cli.look.door import reader
from sickbay.cli.look.subject import Subject, find
from sickbay.cli.look.told import Told, ask
from sickbay.settings import Settings
from workers.run import temporal_of


@dataclass(frozen=True)
class Case:
    """A device, its record, the installation's switch, and what Temporal tells.

    Attributes:
        control: None if we may not read it.
    """

    subject: Subject
    control: Control | None
    told: Told


async def gather(settings: Settings, name: str, *, ended: bool = True) -> Case:
    """Read everything of the device of this name.

    Args:
        settings: where cluster and Temporal are.
        name: see `sickbay.cli.look.subject.find`.
        ended: whether to ask Temporal also for an incident that has ended.

    Raises:
        SickbayError: nothing, or too much, has that name, or the cluster does not answer.
    """
    async with reader(settings) as gateway:
        subject = find(await sights.look(gateway, slices=True), name)
        control = await pausing.read(gateway)
    entry, record = subject.entry, subject.record
    if record is None or entry is None or (entry.closed and not ended):
        return Case(subject, control, Told())
    named = name if subject.past(name) else record.spec.incident
    return Case(subject, control, await ask(temporal_of(settings), named))
