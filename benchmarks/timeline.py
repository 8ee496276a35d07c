"""From a written status to a fence, and where the time went in between."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.stage import Seat
from benchmarks.witness import Request, Witness, place


@dataclass(frozen=True)
class Timeline:
    """What was asked of the API server because of one fault.

    Attributes:
        status: the node writes that the device is Unhealthy.
        fence: the rule that keeps new allocations off it.
        record: Sickbay's record of the device, which it writes before; the bare loop has none.
    """

    status: Request
    fence: Request
    record: Request | None = None

    @property
    def from_sent(self) -> float:
        """Seconds from the API server having received the status to its having answered the fence."""
        return self.fence.answered - self.status.received

    @property
    def from_answered(self) -> float:
        """Seconds from the API server having answered the status to its having answered the fence."""
        return self.fence.answered - self.status.answered

    def parts(self) -> dict[str, float]:
        """Give seconds by part, in order; their sum is `from_sent`."""
        parts = {"status written": self.status.answered - self.status.received}
        before, steps = self.status, {"record": self.record, "fence": self.fence}
        for name, request in steps.items():
            if request is not None:
                parts[f"before {name}"] = request.received - before.answered
                parts[name] = request.answered - request.received
                before = request
        return parts

    @classmethod
    def of(cls, seat: Seat, witness: Witness) -> Timeline:
        """Find the requests that belong to the fault of this seat's device.

        Raises:
            KeyError: its status or its fence was never written.
        """
        return cls(
            status=witness.statuses[seat.namespace, seat.pod],
            fence=witness.fences[place(seat.device)],
            record=witness.records.get(place(seat.device)),
        )
