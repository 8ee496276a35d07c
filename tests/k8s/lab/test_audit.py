"""The audit log as a witness."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k8s.lab.audit import AuditLog, Entry
from k8s.lab.lab import Lab
from sickbay import errors


def line(**fields: object) -> str:
    """Build a line of the log."""
    return json.dumps({"stage": "ResponseComplete", "verb": "get", "auditID": "1", **fields})


def test_it_reads_on_from_where_it_was(tmp_path: Path) -> None:
    """A line counts once, a half written one when it is whole, and a request that goes on not yet."""
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    assert log.read() == []
    path.write_text(
        line(auditID="1") + "\n" + line(auditID="2", stage="ResponseStarted") + "\n" + line(auditID="3")[:9]
    )
    assert [entry.audit_id for entry in log.read()] == ["1"]
    assert AuditLog(path, from_end=True).read() == []
    with path.open("a") as more:
        more.write(line(auditID="3")[9:] + "\n")
    assert [entry.audit_id for entry in log.read()] == ["3"]


@pytest.mark.lab
async def test_it_tells_who_did_what_and_how_it_ended(lab: Lab, namespace: str) -> None:
    """Each request once, with its user, name, code, and the preconditions of a deletion."""
    log = AuditLog(lab.audit_log, from_end=True)
    rules = "/apis/resource.k8s.io/v1/devicetaintrules"
    name = f"{namespace}-rule"
    body = {
        "metadata": {"name": name},
        "spec": {
            "deviceSelector": {"driver": "nobody.example", "pool": "none", "device": "none"},
            "taint": {"key": "test.example/x", "effect": "NoSchedule"},
        },
    }
    await lab.gateway.request("POST", rules, body=body)
    with pytest.raises(errors.AlreadyExists):
        await lab.gateway.request("POST", rules, body=body)
    with pytest.raises(errors.Conflict):
        await lab.gateway.request("DELETE", f"{rules}/{name}", body={"preconditions": {"uid": "other"}})
    await lab.gateway.request("DELETE", f"{rules}/{name}")

    def ours(entry: Entry) -> bool:
        return entry.resource == "devicetaintrules" and entry.name == name and entry.user.username == "admin"

    seen = [entry for entry in log.read() if ours(entry)]
    assert [(entry.verb, entry.code, entry.wrote) for entry in seen] == [
        ("create", 201, True),
        ("create", 409, False),
        ("delete", 409, False),
        ("delete", 200, True),
    ]
    assert seen[0].response_object["metadata"]["uid"]
    assert seen[2].request_object["preconditions"] == {"uid": "other"}
    assert log.read() == [] or not any(ours(entry) for entry in log.read())
