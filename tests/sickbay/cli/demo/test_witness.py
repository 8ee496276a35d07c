"""What the demo reads from the audit log."""

from __future__ import annotations

from datetime import timedelta

from k8s.impersonation import SERVICE_ACCOUNT
from k8s.lab.audit import Entry, ObjectReference, ResponseStatus, User
from k8s.lab.controlplane import NODES
from sickbay.cli.demo import witness


def entry(verb: str, resource: str, *, by: str = SERVICE_ACCOUNT, at: str = "00.000000", name: str = "x") -> Entry:
    """Build a line of the log; ``at`` are seconds of a minute."""
    kind, _, part = resource.partition("/")
    return Entry(
        stage="ResponseComplete",
        verb=verb,
        audit_id="1",
        object_ref=ObjectReference(
            resource=kind, subresource=part, namespace="demo" if kind == "pods" else "", name=name
        ),
        user=User(by),
        response_status=ResponseStatus(201),
        request_received_timestamp=f"2026-01-01T10:00:{at}Z",
    )


def whole() -> list[Entry]:
    """Build everything that must happen."""
    return [entry(verb, kind) for verb, kind, times in witness.EXPECTED.values() for _ in range(times)]


def test_every_step_is_counted() -> None:
    """As often as it should have been is well."""
    assert all(check.ok for check in witness.counted(whole()))


def test_too_few_and_too_many_are_wrong() -> None:
    """A second eviction is as bad as none, and what others do does not count."""
    log = [*whole(), entry("create", "pods/eviction"), entry("delete", "devicetaintrules", by="ann")]
    wrong = [(check.step, check.seen) for check in witness.counted(log[1:]) if not check.ok]
    assert wrong == [("incident recorded, once", 0), ("job evicted by the Eviction API, once", 2)]


def test_book_keeping_is_not_told() -> None:
    """A status patch is an act, and none for a spectator."""
    status = entry("patch", "devicequarantines/status")
    assert witness.acted(status)
    assert not witness.worth_telling(status)
    assert witness.worth_telling(entry("create", "pods/eviction"))


def test_time_to_the_fence_begins_with_the_pods_status() -> None:
    """From the node's first status of this very pod to the first fence after it."""
    log = [
        entry("create", "devicetaintrules", at="00.500000"),
        entry("patch", "pods/status", by=NODES, at="01.000000", name="other"),
        entry("patch", "pods/status", by=NODES, at="02.000000", name="trainer"),
        entry("patch", "pods/status", by=NODES, at="02.010000", name="trainer"),
        entry("create", "devicetaintrules", at="02.018000"),
    ]
    assert witness.fenced_after(log, "demo", "trainer") == timedelta(milliseconds=18)
    assert witness.fenced_after(log[:-1], "demo", "trainer") is None
