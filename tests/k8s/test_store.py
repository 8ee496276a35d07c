"""What becomes of each object that an informer is told of."""

from __future__ import annotations

import json

import msgspec
import pytest

from k8s.store import Change, Count, Store, older
from k8s.wire import ResourceSlice

SPEC = {"driver": "d", "pool": {"name": "p"}}


def raw(name: str, version: str, uid: str = "", **spec: object) -> msgspec.Raw:
    """Build a slice as the server sends it; ``uid`` is the name's by default."""
    metadata = {"name": name, "uid": uid or f"u-{name}", "resourceVersion": version}
    return msgspec.Raw(json.dumps({"metadata": metadata, "spec": SPEC | spec}).encode())


def undecodable(name: str, version: str, uid: str = "") -> msgspec.Raw:
    """Build what has a name, and cannot be read as a slice."""
    return raw(name, version, uid, driver=5)


NAMELESS = msgspec.Raw(b'{"metadata":{"name":null},"spec":{}}')


class Told:
    """A store of slices, and what it told."""

    def __init__(self) -> None:
        self.changes: list[Change[ResourceSlice]] = []
        self.store = Store(ResourceSlice, self.changes.append, plural="resourceslices")

    def verbs(self) -> list[str]:
        """Give the changes since the last call in a short form."""
        found = []
        for change in self.changes:
            verb = "modified" if change.old and change.new else "added" if change.new else "deleted"
            item = change.new or change.old
            assert item is not None
            found.append(f"{verb} {item.uid}@{item.version}" + (" undecodable" if item.undecodable else ""))
        self.changes.clear()
        return found


def test_changes_are_told_once() -> None:
    """New objects are added, new versions modify, the same version again says nothing, older ones are dropped."""
    told = Told()
    for version in ("5", "5", "7", "6"):
        told.store.take(raw("p", version))
    assert told.verbs() == ["added u-p@5", "modified u-p@7"]
    assert told.store.counts[Count.STALE] == 1
    told.store.take(raw("p", "6"), restored=True)
    assert told.verbs() == ["modified u-p@6"]


def test_the_change_is_in_the_store_before_it_is_told() -> None:
    """Whoever is told a change finds it in ``items``."""
    seen = []
    store = Store(ResourceSlice, lambda change: seen.append(store.items.get(change.key) is change.new), plural="x")
    store.take(raw("p", "1"))
    store.take(raw("p", "2"))
    store.take(raw("p", "3"), deleted=True)
    assert seen == [True, True, True]


def test_another_uid_is_another_object() -> None:
    """The same name with a new uid is a delete and an add, in that order."""
    told = Told()
    told.store.take(raw("p", "5"))
    told.store.take(raw("p", "9", uid="new"))
    assert told.verbs() == ["added u-p@5", "deleted u-p@5", "added new@9"]


def test_a_delete_carries_the_final_state() -> None:
    """A watched delete tells the final state, or the last one known if that cannot be read; an unknown object none."""
    told = Told()
    told.store.take(raw("p", "5"))
    told.store.take(raw("p", "6", driver="final"), deleted=True)
    told.store.take(raw("q", "7", driver="last"))
    told.store.take(undecodable("q", "8"), deleted=True)
    told.store.take(raw("unknown", "9"), deleted=True)
    deleted = [change.old.object.spec.driver for change in told.changes if change.old and not change.new]
    assert deleted == ["final", "last"]
    assert told.verbs() == ["added u-p@5", "deleted u-p@6", "added u-q@7", "deleted u-q@7"]
    assert not told.store.items


def test_an_old_delete_does_not_take_the_new_object() -> None:
    """A delete that precedes what we have is of an earlier object of that name."""
    told = Told()
    told.store.take(raw("p", "9", uid="new"))
    told.store.take(raw("p", "5"), deleted=True)
    assert told.verbs() == ["added new@9"]


def test_the_last_good_state_stays_marked() -> None:
    """What cannot be read keeps its last good state, is counted, and is good again with its next good version."""
    told = Told()
    told.store.take(raw("p", "5", driver="good"))
    for version in ("6", "6"):
        told.store.take(undecodable("p", version))
    assert told.verbs() == ["added u-p@5", "modified u-p@6 undecodable"]
    assert told.store.items["", "p"].object.spec.driver == "good"
    told.store.take(raw("p", "7"))
    assert told.verbs() == ["modified u-p@7"]
    assert told.store.counts[Count.UNDECODABLE] == 2


def test_an_undecodable_stranger_is_only_counted() -> None:
    """One that was never read has no state; one that replaced another object ends that."""
    told = Told()
    told.store.take(undecodable("q", "3"))
    told.store.take(raw("p", "5"))
    told.store.take(undecodable("p", "6", uid="new"))
    assert told.verbs() == ["added u-p@5", "deleted u-p@5"]
    assert told.store.counts[Count.UNDECODABLE] == 2


def test_missing_objects_are_deleted_unless_one_has_no_name() -> None:
    """A list that holds something nameless proves no absence: what it lacks stays, marked."""
    told = Told()
    told.store.take(raw("p", "5"))
    assert told.store.take(NAMELESS) is None
    told.store.lose([("", "p")], believed=False)
    assert told.verbs() == ["added u-p@5", "modified u-p@5 undecodable"]
    told.store.take(raw("p", "5"))
    told.store.lose([("", "p")], believed=True)
    assert told.verbs() == ["modified u-p@5", "deleted u-p@5"]
    assert told.store.counts[Count.NAMELESS] == 1


def test_flaws_are_kept_and_counted_by_kind() -> None:
    """An odd field and an odd entry are two counts, and the object says what it lacks."""
    told = Told()
    told.store.take(raw("p", "5", nodeName=7, devices=[{"name": "x"}, 5]))
    item = told.store.items["", "p"]
    assert [flaw.path for flaw in item.flaws] == ["spec.nodeName", "spec.devices[1]"]
    assert [device.name for device in item.object.spec.devices] == ["x"]
    assert (told.store.counts[Count.ODD_FIELDS], told.store.counts[Count.ODD_ENTRIES]) == (1, 1)


@pytest.mark.parametrize(
    ("version", "than", "is_older"),
    [
        ("9", "10", True),
        ("10", "9", False),
        ("9", "9", False),
        (str(2**100), str(2**100 + 1), True),
        ("a", "b", False),
        ("", "9", False),
        ("-1", "9", False),
        ("1.5", "9", False),
    ],
)
def test_versions_compare_as_numbers_or_not_at_all(version: str, than: str, is_older: bool) -> None:  # noqa: FBT001
    """Decimal versions have an order, whatever their length; all others none."""
    assert older(version, than) is is_older
