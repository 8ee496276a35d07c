"""The tables of `sickbay get`, to the letter."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from sickbay.cli.look.kinds import Kind
from sickbay.cli.look.rows import COLUMNS, Wanted, missing, rows
from sickbay.cli.look.table import Output, Printer
from tests.sickbay.cli.look.golden import golden
from tests.sickbay.cli.look.sights import LATER, WARD, key, record, rule, sight


def table(kind: Kind, output: Output = Output.TABLE, **wanted: object) -> str:
    """Print what there is."""
    found = rows(kind, WARD, Wanted(**wanted), LATER)  # type: ignore[arg-type] # each test names fields that exist
    return "\n".join(Printer(COLUMNS[kind], output).table(found)) + "\n"


@pytest.mark.parametrize("output", [Output.TABLE, Output.WIDE])
@pytest.mark.parametrize("kind", Kind)
def test_a_table_is_this(kind: Kind, output: Output) -> None:
    """What people's eyes and scripts know does not change by accident."""
    assert table(kind, output) == golden(f"{kind}-{output}", table(kind, output))


def test_all_shows_what_has_ended_too() -> None:
    """An ended incident, and those before it from the device's history, oldest first."""
    lines = table(Kind.INCIDENTS, ended=True).splitlines()
    assert [line.split()[4] for line in lines] == ["PHASE", "Quarantined", "NeedsOperator", "Cleared", "Released"]


@pytest.mark.parametrize(
    ("wanted", "devices"),
    [
        ({"phases": frozenset({"needsoperator"})}, ["gpu-1"]),
        ({"phases": frozenset({"tainted", "unreadable"})}, ["gpu-3", "gpu-4"]),
        ({"node": "node-7"}, []),
        ({"driver": "nic.sickbay.dev"}, []),
        ({"names": ("node-0/gpu-2", "gpu.sickbay.dev/node-0/gpu-0")}, ["gpu-0", "gpu-2"]),
        ({"names": (key("gpu-1").record_name,), "phases": frozenset({"released"})}, []),
    ],
)
def test_a_selector_leaves_out_the_rest(wanted: dict[str, object], devices: list[str]) -> None:
    """Each one given must hold."""
    found = rows(Kind.DEVICES, WARD, Wanted(**wanted), LATER)  # type: ignore[arg-type] # as above
    assert [row.data["device"] for row in found] == devices


def test_a_name_that_names_nothing_is_told() -> None:
    """Every spelling of a device names its incident; a past one is named by its id alone."""
    names = ("gpu-0", key("gpu-1").incident_id("100"), key("gpu-2").incident_id("40"), "gpu-9")
    found = rows(Kind.INCIDENTS, WARD, Wanted(names), LATER)
    assert missing(found, Wanted(names)) == ["gpu-9"]
    assert [row.name.rpartition("/")[2] for row in found] == ["100", "100", "40"]


@pytest.mark.parametrize(
    ("numbers", "asks"),
    [
        ("0 of 8 devices of gpu fenced; mode approve waits for a person", "Approve"),
        ("3 of 8 devices of gpu fenced; waits until a device is released, or for a person", ""),
    ],
)
def test_an_incident_that_waits_for_a_persons_word_asks_for_it(numbers: str, asks: str) -> None:
    """As the guard wrote it; where room comes by itself nobody has to do anything. Its own question comes first."""
    held = record("gpu-0", spec={"admission": {"state": "Held", "by": "guard", "numbers": numbers}})
    (row,) = rows(Kind.INCIDENTS, sight([held]), Wanted(), LATER)
    assert row.cells[5] == asks
    held["status"]["conditions"] = [{"type": "NeedsOperator", "status": "True", "reason": "UnknownTooLong"}]
    (row,) = rows(Kind.INCIDENTS, sight([held]), Wanted(), LATER)
    assert row.cells[5] == "UnknownTooLong"
    admitted = record("gpu-0", spec={"admission": {"state": "Admitted", "by": "ann", "numbers": numbers}})
    (row,) = rows(Kind.INCIDENTS, sight([admitted]), Wanted(), LATER)
    assert row.cells[5] == ""


def test_what_was_shown_stays_in_sight() -> None:
    """A watch shows how an incident ends, which it would not list."""
    ended = key("gpu-2").incident_id("100")
    assert ended not in [row.key for row in rows(Kind.INCIDENTS, WARD, Wanted(), LATER)]
    assert ended in [row.key for row in rows(Kind.INCIDENTS, WARD, Wanted(keys=frozenset({ended})), LATER)]


def test_one_thing_is_a_document_and_several_are_a_list() -> None:
    """JSON and YAML hold the same, and of a quarantine the object itself."""
    found = rows(Kind.QUARANTINES, WARD, Wanted(names=("gpu-0",)), LATER)
    (as_json,) = Printer(COLUMNS[Kind.QUARANTINES], Output.JSON).document(found, one=True)
    (as_yaml,) = Printer(COLUMNS[Kind.QUARANTINES], Output.YAML).document(found, one=False)
    one = json.loads(as_json)
    assert yaml.safe_load(as_yaml) == {"apiVersion": "v1", "kind": "List", "items": [one]}
    assert (one["kind"], one["spec"]["message"]) == ("DeviceQuarantine", "Xid 79")


def test_names_can_be_given_to_kubectl() -> None:
    """`-o name` has no headings."""
    assert table(Kind.QUARANTINES, Output.NAME, names=("gpu-0",)) == (
        f"devicequarantine.sickbay.dev/{key('gpu-0').record_name}\n"
    )


def test_a_later_batch_stays_under_its_headings() -> None:
    """A watch prints headings once, and columns do not jump."""
    printer = Printer(COLUMNS[Kind.INCIDENTS])
    heading, first, _ = printer.table(rows(Kind.INCIDENTS, WARD, Wanted(), LATER))
    (again,) = printer.table(rows(Kind.INCIDENTS, WARD, Wanted(names=("gpu-0",)), LATER))
    assert again == first
    assert heading.index("PHASE") == again.index("Quarantined")


def test_a_drivers_text_forges_no_line() -> None:
    """Line ends, escapes and links of untrusted text do not reach the terminal."""
    seen = sight([record("gpu-0", spec={"message": "bad\n\x1b[31mok https://evil.example"})])
    (row,) = rows(Kind.QUARANTINES, seen, Wanted(), LATER)
    (line,) = Printer(COLUMNS[Kind.QUARANTINES], Output.WIDE, headed=False).table([row])
    assert line.isprintable()
    assert "bad  31mok https:evil.example" in line


@pytest.mark.parametrize(
    ("change", "fence"),
    [
        ({"taint": {"key": "sickbay.dev/quarantine", "effect": "None"}}, "Shadow"),
        ({"taint": {"key": "sickbay.dev/ramp", "effect": "NoSchedule"}}, "Ramp"),
        ({"deviceSelector": {"driver": "gpu.sickbay.dev", "pool": "node-0", "device": "gpu-9"}}, ""),
    ],
)
def test_a_fence_says_how_it_stands(change: dict[str, Any], fence: str) -> None:
    """One of another device is none of this one's."""
    (row,) = rows(Kind.DEVICES, sight([record("gpu-0")], [rule("gpu-0", **change)], "gpu-0"), Wanted(), LATER)
    assert row.data.get("fence", "") == fence


def test_a_fence_without_an_incident_is_told() -> None:
    """The device is not in service, whatever its last incident says."""
    (row,) = rows(Kind.DEVICES, sight([], [rule("gpu-0")], "gpu-0"), Wanted(), LATER)
    assert row.data["state"] == "Fenced"
