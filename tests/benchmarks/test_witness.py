"""Pairing of statuses with fences, from lines of an audit log as the API server writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.stage import Seat
from benchmarks.timeline import Timeline
from benchmarks.witness import Witness
from k8s.impersonation import SERVICE_ACCOUNT
from sickbay.model.device import DeviceKey

SEAT = Seat("jobs", "job-1", DeviceKey(cluster="c", driver="gpu.example", pool="node-1", device="gpu-3"))
RECORD = SEAT.device.record_name


def at(milliseconds: float) -> str:
    """Write a time as the API server does."""
    return f"2026-11-29T18:00:{milliseconds / 1000:09.6f}Z"


def line(
    verb: str, resource: str, began: float, ended: float, *, user: str, name: str = "", code: int = 200, **body: object
) -> str:
    """Build a line: a request that the API server received and answered at these milliseconds."""
    resource, _, subresource = resource.partition("/")
    entry = {
        "stage": "ResponseComplete",
        "auditID": f"{verb}-{resource}-{began}",
        "verb": verb,
        "user": {"username": user},
        "objectRef": {"resource": resource, "subresource": subresource, "namespace": "jobs", "name": name},
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": at(began),
        "stageTimestamp": at(ended),
        **({"requestObject": body} if body else {}),
    }
    return json.dumps(entry) + "\n"


def status(began: float, ended: float, *, user: str = "nodes", pod: str = "job-1") -> str:
    """A status of a pod."""
    return line("patch", "pods/status", began, ended, user=user, name=pod)


def fence(began: float, ended: float, *, device: str = "gpu-3", code: int = 201, user: str = SERVICE_ACCOUNT) -> str:
    """A rule for one device."""
    selector = {"driver": "gpu.example", "pool": "node-1", "device": device}
    return line(
        "create", "devicetaintrules", began, ended, user=user, code=code, spec={"deviceSelector": selector, "taint": {}}
    )


def record(began: float, ended: float) -> str:
    """Sickbay's record of the device."""
    device = {"driver": "gpu.example", "pool": "node-1", "device": "gpu-3"}
    return line(
        "create", "devicequarantines", began, ended, user=SERVICE_ACCOUNT, code=201, spec={"device": device, "node": ""}
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log in which something of the same device happened before: the witness must not see it."""
    path = tmp_path / "audit.jsonl"
    path.write_text(status(0, 1) + fence(2, 3))
    return path


def witness(log: Path, *lines: str) -> Witness:
    """Make a witness, have these lines written, and let it look."""
    made = Witness(log)
    with log.open("a") as more:
        more.writelines(lines)
    made.look()
    return made


def test_the_bare_loop_is_measured_from_the_status_to_the_answer_to_its_rule(log: Path) -> None:
    """From sent counts what writing the status took, from answered does not."""
    timeline = Timeline.of(SEAT, witness(log, status(100, 103), fence(105, 107.5, user="admin")))
    assert timeline.from_sent == pytest.approx(0.0075, abs=1e-6)
    assert timeline.from_answered == pytest.approx(0.0045, abs=1e-6)
    assert list(timeline.parts()) == ["status written", "before fence", "fence"]


def test_the_parts_of_a_fault_add_up(log: Path) -> None:
    """Record and fence are parts of their own, with what lies before them; no time is lost or counted twice."""
    timeline = Timeline.of(SEAT, witness(log, status(100, 103), record(106, 109), fence(110, 112)))
    parts = timeline.parts()
    assert {name: round(1000 * seconds) for name, seconds in parts.items()} == {
        "status written": 3,
        "before record": 3,
        "record": 3,
        "before fence": 1,
        "fence": 2,
    }
    assert sum(parts.values()) == pytest.approx(timeline.from_sent, abs=1e-9)


def test_the_first_status_and_the_first_accepted_fence_count(log: Path) -> None:
    """A later status, a refused rule, a repeat, another's status or device are none of this fault."""
    lines = [
        status(90, 91, user="system:kube-scheduler"),
        status(92, 93, pod="job-2"),
        status(100, 103),
        fence(104, 105, device="gpu-4"),
        fence(104, 106, code=403),
        fence(110, 112),
        fence(120, 121, code=409),
        status(130, 131),
        fence(140, 141),
    ]
    timeline = Timeline.of(SEAT, witness(log, *lines))
    assert timeline.from_sent == pytest.approx(0.012, abs=1e-6)


@pytest.mark.parametrize("lines", [[status(100, 103)], [fence(110, 112)], []])
def test_a_fault_without_its_fence_or_its_status_has_no_time(log: Path, lines: list[str]) -> None:
    """What did not happen is no figure, and what happened before the witness came does not stand in for it."""
    with pytest.raises(KeyError):
        Timeline.of(SEAT, witness(log, *lines))


async def test_it_waits_for_the_word_of_a_record(log: Path) -> None:
    """A phase is seen in the write that sets it, and a wait for another one ends in time."""
    words = [
        line("patch", "devicequarantines/status", 1, 2, user=SERVICE_ACCOUNT, name=RECORD, status={"verified": True}),
        line(
            "patch", "devicequarantines/status", 3, 4, user=SERVICE_ACCOUNT, name=RECORD, status={"phase": "Recovering"}
        ),
    ]
    seen = witness(log, *words)
    assert await seen.until(lambda: seen.said(RECORD, "Recovering"), within=1)
    assert not await seen.until(lambda: seen.said(RECORD, "Released"), within=0.05)
    assert [phase for phase, _ in seen.words[RECORD]] == ["", "Recovering"]
