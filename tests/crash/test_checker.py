"""The witness itself: it is content with a good story, and finds each way in which a story can be spoilt."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.crash.checker import Findings, Promises, check
from tests.crash.story import DEVICE, KEY, NAME, SICKBAY, Log, opened, released

DEVICE_NAME = "/".join(DEVICE.values())


def verdict(log: Log, *, kills: int = 0, fenced_at_most: int = 1, incidents: int = 1) -> Findings:
    """Check a story of one device."""
    promises = Promises(kills=kills, fenced_at_most=fenced_at_most, incidents={DEVICE_NAME: incidents})
    return check(log.lines, log.pods, promises)


def test_an_incident_as_it_should_go_breaks_no_promise() -> None:
    """Each effect is counted once."""
    findings = verdict(released())
    assert findings.violations == []
    assert findings.effects == {
        "record": 1,
        "fence": 1,
        "pod evicted": 1,
        "probe resourceclaims": 1,
        "probe pods": 1,
        "probe pods deleted": 1,
        "probe resourceclaims deleted": 1,
        "releasing": 1,
        "fence unlatched": 1,
        "fence deleted": 1,
        "closing": 1,
        "record let go": 1,
    }
    assert (findings.repeats.total(), findings.unclear, findings.fenced) == (0, 0, 1)


def test_repeats_that_change_nothing_are_counted_and_allowed() -> None:
    """A create that finds the object, a patch that moves no version, a delete of what is gone or going."""
    log = opened()
    log.record(code=409)
    log.fence(code=409)
    log.evict()
    log.probe("pods", code=409)
    log.stop("pods", uid="probe-pods")
    log.phase("Releasing", release=1)
    log.unlatch()
    log.unlatch(changes=False)
    log.lift()
    log.lift(code=404)
    log.phase("Released", release=1)
    log.phase("Released", release=1, changes=False)
    log.let_go()
    findings = verdict(log, kills=1)
    assert findings.violations == []
    assert findings.repeats == {
        "record": 1,
        "fence": 1,
        "pod evicted": 1,
        "probe pods": 1,
        "probe pods deleted": 1,
        "fence unlatched": 1,
        "fence deleted": 1,
        "closing": 1,
    }


def test_a_kubelet_that_removes_the_pod_is_no_second_deletion() -> None:
    """It does so with grace period 0, and the time is set anew."""
    log = released()
    log.goes("2026-01-01T00:00:01Z", grace=0)
    assert verdict(log).violations == []


def test_a_pod_may_be_gone_before_the_answer_to_its_deletion_is_logged() -> None:
    """Who came first deleted it, whoever was answered first."""
    log = released()
    stopped = next(n for n, line in enumerate(log.lines) if _request(line) == ("delete", "pods"))
    deletion = json.loads(log.lines[stopped]) | {"requestReceivedTimestamp": "2026-01-01T00:00:01.000000Z"}
    by_kubelet = deletion | {"requestReceivedTimestamp": "2026-01-01T00:00:02.000000Z", "user": {"username": "nodes"}}
    log.lines[stopped : stopped + 1] = [json.dumps(by_kubelet), json.dumps(deletion)]
    assert verdict(log).violations == []
    log.lines[stopped + 1] = json.dumps(deletion | {"requestReceivedTimestamp": "2026-01-01T00:00:03.000000Z"})
    assert any("deleted 0 times" in line for line in verdict(log).violations)


def test_dry_runs_and_others_are_not_sickbays_doing() -> None:
    """What an installation tries, and what controllers do."""
    log = released()
    log.say("create", "devicequarantines", "x", uri="/apis/sickbay.dev/v1alpha1/devicequarantines?dryRun=All", code=403)
    log.say("patch", "pods/status", "job-1", namespace="jobs", user="nodes")
    assert verdict(log).violations == []


def test_what_was_cut_off_is_neither_done_nor_undone() -> None:
    """The log of a request whose client died tells nothing of its effect."""
    log = released()
    log.record(code=500)
    log.fence(code=0)
    findings = verdict(log)
    assert (findings.violations, findings.unclear) == ([], 2)


@pytest.mark.parametrize("what", ["pods", "resourceclaims"])
def test_a_probe_may_have_gone_with_a_deletion_that_was_cut_off(what: str) -> None:
    """Whoever asks again finds it gone; with no deletion at all it was left behind."""
    log = released()
    deletion = next(n for n, line in enumerate(log.lines) if _request(line) == ("delete", what))
    log.lines[deletion] = json.dumps(json.loads(log.lines[deletion]) | {"responseStatus": {"code": 504}})
    log.stop(what, uid=f"probe-{what}", code=404)
    findings = verdict(log)
    assert (findings.violations, findings.unclear) == ([], 1)
    del log.lines[deletion]
    assert any("deleted 0 times" in line for line in verdict(log).violations)


def _request(line: str) -> tuple[str, str]:
    event = json.loads(line)
    return event["verb"], event["objectRef"]["resource"]


def test_a_device_that_broke_twice_has_two_incidents() -> None:
    """One is too few then, and two are too many otherwise."""
    assert any("has 1 incidents, not 2" in line for line in verdict(released(), incidents=2).violations)


def _create_twice(log: Log) -> None:
    log.fence()


def _another_fence(log: Log) -> None:
    log.fence(2)


def _record_twice(log: Log) -> None:
    log.record()


def _unlatch_twice(log: Log) -> None:
    log.unlatch()


def _close_twice(log: Log) -> None:
    log.phase("Released", release=1)


def _probe_twice(log: Log) -> None:
    log.probe("pods")


def _probe_deleted_under_another_uid(log: Log) -> None:
    log.stop("pods", uid="another")


def _older_term(log: Log) -> None:
    log.record(term=3, run=2)
    log.record(term=2, run=3)


def _status_of_a_pod(log: Log) -> None:
    log.say("patch", "pods/status", "job-1", namespace="jobs", code=403)


def _pod_deleted(log: Log) -> None:
    log.stop("pods", namespace="jobs")


def _node_cordoned(log: Log) -> None:
    log.say("patch", "nodes", "node-1")


def _deleted_without_uid(log: Log) -> None:
    log.stop("pods", uid="")


def _second_deletion(log: Log) -> None:
    log.goes("2026-01-01T00:01:00Z")


def _evicted_more_than_killed(log: Log) -> None:
    log.evict()


def _evicted_nobody_goes(log: Log) -> None:
    log.evict(uid="pod-uid-2")


def _strange_fence(log: Log) -> None:
    log.lift(7)


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (_create_twice, f"fence {NAME}-1 happened 2 times"),
        (_another_fence, f"fence {NAME}-2 of incident/{KEY} was not lifted"),
        (_record_twice, f"record {KEY}/record/1 happened 2 times"),
        (_unlatch_twice, f"fence unlatched {KEY}/release/1/unlatch happened 2 times"),
        (_close_twice, f"closing incident/{KEY}/closed happened 2 times"),
        (_probe_twice, f"probe pods {NAME}-1 happened 2 times"),
        (_probe_deleted_under_another_uid, f"probe pods {NAME}-1 was created once and deleted 2 times"),
        (_older_term, "decided in term 2 after term 3 had begun"),
        (_status_of_a_pod, "not Sickbay's to write: line 15: patch pods/status jobs/job-1"),
        (_pod_deleted, "not Sickbay's to write: line 15: delete pods jobs/"),
        (_node_cordoned, "not Sickbay's to write: line 15: patch nodes node-1"),
        (_deleted_without_uid, "deleted without a uid"),
        (_second_deletion, "evicted pod pod-uid-1 has 2 deletions"),
        (_evicted_more_than_killed, "eviction of pod pod-uid-1 was accepted 2 times, with 0 kills"),
        (_evicted_nobody_goes, "evicted pod pod-uid-2 has 0 deletions"),
        (_strange_fence, "touched a fence that Sickbay never put"),
    ],
)
def test_too_much_is_found(spoil: Callable[[Log], None], found: str) -> None:
    """Something is added to a good story."""
    log = released()
    spoil(log)
    assert any(found in line for line in verdict(log).violations), verdict(log)


@pytest.mark.parametrize(
    ("verb", "resource", "found"),
    [
        ("create", "devicequarantines", "fenced before the record"),
        ("create", "devicetaintrules", f"{KEY} never fenced its device"),
        ("delete", "pods", f"probe pods {NAME}-1 was created once and deleted 0 times"),
        ("delete", "resourceclaims", f"probe resourceclaims {NAME}-1 was created once and deleted 0 times"),
        ("patch", "devicetaintrules", "was not lifted: unlatched 0 times"),
        ("delete", "devicetaintrules", "was not lifted: unlatched 1 times, deleted 0 times, standing"),
        ("patch", "devicequarantines/status", f"incident/{KEY} is still open, not Released"),
        ("patch", "devicequarantines", "was closed and not let go of"),
    ],
)
def test_too_little_is_found(verb: str, resource: str, found: str) -> None:
    """Something is left out of a good story."""
    log = released()
    kind, _, sub = resource.partition("/")
    wanted = f'"verb": "{verb}"', f'"resource": "{kind}", "subresource": "{sub}"'
    log.lines = [line for line in log.lines if not all(part in line for part in wanted)]
    if resource == "devicequarantines":
        assert any(found in line for line in verdict(log).violations), verdict(log)
    assert any(found in line for line in verdict(log).violations), verdict(log)


def test_a_device_that_was_lost_is_found() -> None:
    """Nothing at all was done about it."""
    assert verdict(Log()).violations == [f"{DEVICE_NAME} has 0 incidents, not 1"]


def test_an_incident_without_a_cause_is_found() -> None:
    """Nothing was broken."""
    assert verdict(released(), incidents=0).violations == [f"{DEVICE_NAME} has 1 incidents, not 0"]


def test_a_wrong_end_is_found() -> None:
    """An incident must end as it should, not somehow."""
    log = opened()
    log.unlatch()
    log.lift()
    log.phase("Cleared")
    log.let_go()
    assert any("is Cleared, not Released" in line for line in verdict(log).violations)


def test_too_many_fences_are_found() -> None:
    """The share holds at every moment; fences and admissions are counted apart."""
    findings = verdict(released(), fenced_at_most=0)
    assert findings.fenced == 1
    assert any("1 devices fenced, 0 allowed" in line for line in findings.violations)
    assert any("1 incidents admitted, 0 allowed" in line for line in findings.violations)


def test_a_fence_of_no_single_device_is_found() -> None:
    """A selector that lacks a part matches more than one."""
    log = opened()
    log.fence(2, device="")
    assert any("fence of no single device" in line for line in verdict(log).violations)


def test_an_effect_key_in_two_objects_is_found() -> None:
    """The names differ, the key says it is one effect."""
    log = released()
    sent = {
        "metadata": {"annotations": {"sickbay.dev/effect": f"{KEY}/fence/1", "sickbay.dev/incident": f"incident/{KEY}"}}
    }
    log.say("create", "devicetaintrules", f"{NAME}-9", sent=sent, answer={"metadata": {}}, code=201, user=SICKBAY)
    assert any(f"effect key {KEY}/fence/1 created 2 objects" in line for line in verdict(log).violations)
