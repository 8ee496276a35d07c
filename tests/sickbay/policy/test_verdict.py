"""What a probe proves, and what it does not."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay.model.device import UNKNOWN_HARDWARE, DeviceKey
from sickbay.model.incident import Trial, Verdict
from sickbay.model.observation import Health
from sickbay.policy.verdict import PATIENCE, ProbeFacts, judge, parse_told

DEVICE = DeviceKey(cluster="c", driver="gpu.example.com", pool="node-1", device="gpu-0")
OURS = (("gpu.example.com", "node-1", "gpu-0"),)
OTHER = (("gpu.example.com", "node-1", "gpu-1"),)
CARD = "GPU-1"


def told(verdict: str = "pass", device: str = CARD, **more: object) -> str:
    """Write a termination message."""
    return json.dumps({"verdict": verdict, "device": device, **more})


def ended(message: str, exit_code: int = 0, **facts: object) -> ProbeFacts:
    """Build a probe that ended on our device."""
    phase = "Succeeded" if exit_code == 0 else "Failed"
    known = {"phase": phase, "held": OURS, "exit_code": exit_code, "message": message, **facts}
    return ProbeFacts(**known)  # type: ignore[arg-type]  # the table below is checked by running it


NO_ROOM = "0/3 nodes are available: cannot allocate all claims"
LONG = PATIENCE
SHORT = PATIENCE - timedelta(seconds=1)

TABLE = [
    # Proof needs the right device, named twice, and a clear word.
    ("pass", ended(told()), Verdict.PASS, "ProbePassed"),
    ("fail", ended(told("fail"), 1), Verdict.FAIL, "ProbeFailed"),
    ("fail, exit code 0", ended(told("fail")), Verdict.FAIL, "ProbeFailed"),
    ("pass, exit code 3", ended(told(), 3), Verdict.INCONCLUSIVE, "Contradiction"),
    ("pass, own entry Healthy", ended(told(), health=Health.HEALTHY), Verdict.PASS, "ProbePassed"),
    ("pass, driver without health", ended(told(), health=Health.UNKNOWN), Verdict.PASS, "ProbePassed"),
    ("pass, own entry Unhealthy", ended(told(), health=Health.UNHEALTHY), Verdict.FAIL, "ReportedUnhealthy"),
    (
        "own entry Unhealthy while it runs",
        ProbeFacts(phase="Running", held=OURS, health=Health.UNHEALTHY),
        Verdict.FAIL,
        "ReportedUnhealthy",
    ),
    # An exit code alone proves nothing.
    ("exit 0 without a message", ended(""), Verdict.INCONCLUSIVE, "NoVerdict"),
    ("exit 1 without a message", ended("", 1), Verdict.INCONCLUSIVE, "NoVerdict"),
    ("device in use", ended("DCGM_ST_IN_USE", 226), Verdict.INCONCLUSIVE, "NoVerdict"),
    ("pass with a warning", ended(told("PASS with warning: little memory")), Verdict.INCONCLUSIVE, "NoVerdict"),
    ("pass and a warning", ended(told(warning="little memory")), Verdict.INCONCLUSIVE, "NoVerdict"),
    ("killed by a reboot", ended("", 137), Verdict.INCONCLUSIVE, "NoVerdict"),
    ("ended without a status", ProbeFacts(phase="Failed", held=OURS), Verdict.INCONCLUSIVE, "NoVerdict"),
    # Another device, or no proof which.
    ("another device, pass", ended(told(), held=OTHER), Verdict.INCONCLUSIVE, "OtherDevice"),
    ("another device, fail", ended(told("fail"), 1, held=OTHER), Verdict.INCONCLUSIVE, "OtherDevice"),
    (
        "another device, Unhealthy",
        ProbeFacts(phase="Running", held=OTHER, health=Health.UNHEALTHY),
        Verdict.INCONCLUSIVE,
        "OtherDevice",
    ),
    ("two devices", ended(told(), held=OURS + OTHER), Verdict.INCONCLUSIVE, "OtherDevice"),
    ("another card in the slot", ended(told(device="GPU-2")), Verdict.INCONCLUSIVE, "OtherDevice"),
    ("no allocation", ended(told(), held=()), Verdict.INCONCLUSIVE, "NotAllocated"),
    # The infrastructure failed, not the device.
    (
        "kubelet before its driver",
        ProbeFacts(phase="Failed", held=OURS, failure="UnexpectedAdmissionError"),
        Verdict.INCONCLUSIVE,
        "UnexpectedAdmissionError",
    ),
    (
        "deadline, whatever it wrote",
        ended(told(), 0, failure="DeadlineExceeded"),
        Verdict.INCONCLUSIVE,
        "DeadlineExceeded",
    ),
    ("a reason we do not trust", ended("", 1, failure="x\ny"), Verdict.INCONCLUSIVE, "Other"),
    ("node lost", ProbeFacts(phase="Running", held=OURS, node_ready=False), Verdict.INCONCLUSIVE, "NodeLost"),
    ("deleted by a hand", ProbeFacts(phase="Running", held=OURS, deleted=True), Verdict.INCONCLUSIVE, "ProbeDeleted"),
    ("gone", ProbeFacts(there=False), Verdict.INCONCLUSIVE, "ProbeGone"),
    # It could not run: no attempt is used.
    (
        "no room",
        ProbeFacts(blocked="Unschedulable", pending_for=LONG, detail=NO_ROOM),
        Verdict.WAITING,
        "Unschedulable",
    ),
    ("no image", ProbeFacts(held=OURS, blocked="ErrImagePull", pending_for=LONG), Verdict.WAITING, "ErrImagePull"),
    ("node not ready", ProbeFacts(held=OURS, node_ready=False, pending_for=LONG), Verdict.WAITING, "NodeNotReady"),
    # Not yet.
    ("just created", ProbeFacts(), None, ""),
    ("node not ready in the first moment", ProbeFacts(held=OURS, node_ready=False, pending_for=SHORT), None, ""),
    ("not scheduled in the first moment", ProbeFacts(blocked="Unschedulable", pending_for=SHORT), None, ""),
    ("runs", ProbeFacts(phase="Running", held=OURS, health=Health.HEALTHY), None, ""),
]


@pytest.mark.parametrize(("facts", "verdict", "cause"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_only_proof_is_a_verdict(facts: ProbeFacts, verdict: Verdict | None, cause: str) -> None:
    """Infrastructure errors and doubts about the device are inconclusive, what never ran is waiting."""
    found = judge(facts, DEVICE, CARD)
    assert (found and found.verdict, found.cause if found else "") == (verdict, cause)


@pytest.mark.parametrize(
    ("facts", "verdict", "cause"),
    [
        (ProbeFacts(phase="Running", held=OURS, ready=True), Verdict.PASS, "LoadPassed"),
        (ProbeFacts(phase="Running", held=OURS), None, ""),
        (ProbeFacts(phase="Running", held=OTHER, ready=True), Verdict.INCONCLUSIVE, "OtherDevice"),
        (ended(told(), held=OTHER), Verdict.INCONCLUSIVE, "OtherDevice"),
        (ProbeFacts(phase="Running", ready=True), None, ""),
        (ProbeFacts(phase="Running", held=OURS, ready=True, node_ready=False), Verdict.INCONCLUSIVE, "NodeLost"),
        (ProbeFacts(phase="Running", held=OURS, ready=True, deleted=True), Verdict.INCONCLUSIVE, "ProbeDeleted"),
        (
            ProbeFacts(phase="Running", held=OURS, ready=True, health=Health.UNHEALTHY),
            Verdict.FAIL,
            "ReportedUnhealthy",
        ),
        (
            ProbeFacts(phase="Failed", failure="UnexpectedAdmissionError"),
            Verdict.INCONCLUSIVE,
            "UnexpectedAdmissionError",
        ),
        (ProbeFacts(blocked="Unschedulable", pending_for=LONG, detail=NO_ROOM), Verdict.WAITING, "Unschedulable"),
        (ProbeFacts(blocked="Unschedulable", pending_for=SHORT), None, ""),
    ],
)
def test_a_canary_passes_on_its_own_device_alone(facts: ProbeFacts, verdict: Verdict | None, cause: str) -> None:
    """Ready under load on exactly that device; what kept it from running, or ended it, is no word about hardware."""
    found = judge(facts, DEVICE, CARD, Trial.CANARY)
    assert (found and found.verdict, found.cause if found else "") == (verdict, cause)


def test_unknown_hardware_never_passes() -> None:
    """A probe that names its device "unknown" proves nothing."""
    found = judge(ended(told(device=UNKNOWN_HARDWARE)), DEVICE, UNKNOWN_HARDWARE)
    assert found is not None
    assert found.verdict is Verdict.INCONCLUSIVE


@given(st.text())
def test_no_text_but_the_exact_form_is_a_verdict(text: str) -> None:
    """Whatever else a probe writes is read without an error, as nothing."""
    assert parse_told(text) is None


@pytest.mark.parametrize(
    "message",
    [
        '{"verdict": "fail", "verdict": "pass", "device": "GPU-1"}',
        '{"verdict": ["pass"], "device": "GPU-1"}',
        '{"verdict": {"pass": 1}, "device": "GPU-1"}',
        '{"verdict": "pass", "device": ""}',
        '{"verdict": "pass", "device": 1}',
        '[["verdict", "pass"], ["device", "GPU-1"]]',
        "{}",
        "null",
        '"pass"',
        "[" * 100_000,
    ],
)
def test_near_misses_are_no_verdict(message: str) -> None:
    """Doubled keys, other types and empty identities are refused."""
    assert parse_told(message) is None


@given(st.text(min_size=1))
def test_the_exact_form_is_read_back(device: str) -> None:
    """Any identity survives the message."""
    found = parse_told(told("fail", device))
    assert found is not None
    assert (found.passed, found.device) == (False, device)


def test_what_is_told_is_tamed() -> None:
    """A probe's own words reach people without control characters, and short."""
    found = judge(ended("\x1b[31m<script>" + "x" * 5000), DEVICE, CARD)
    assert found is not None
    assert len(found.message) <= 200
    assert found.message.isprintable()
