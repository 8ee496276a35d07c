"""What pods' annotations mean."""

from __future__ import annotations

import pytest

from k8s.lab.nodes.behaviour import Behaviour, parse
from sickbay import errors


def test_nothing_told_is_running_for_ever() -> None:
    """Other people's annotations mean nothing."""
    assert parse({"example.com/run-for": "x"}) == Behaviour()


def test_all_of_it() -> None:
    """Each annotation has its field; durations have units."""
    told = {
        "run-for": "200ms",
        "exit-code": "7",
        "stop-after": "1.5m",
        "dies-with-device": "true",
        "ready": "false",
        "pod-ip": "127.0.0.1",
    }
    assert parse({f"lab.sickbay.dev/{key}": value for key, value in told.items()}) == Behaviour(
        run_for=0.2, exit_code=7, stop_after=90.0, dies_with_device=True, ready=False, pod_ip="127.0.0.1"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("run-for", "2"), ("run-for", "-2s"), ("exit-code", "one"), ("exit-code", "1234"), ("ready", "yes")],
)
def test_odd_values_are_refused_by_name(name: str, value: str) -> None:
    """The pod's status will say so."""
    with pytest.raises(errors.UsageError, match=f"annotation lab.sickbay.dev/{name}: '{value}'"):
        parse({f"lab.sickbay.dev/{name}": value})
