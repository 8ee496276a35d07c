"""What the witness saw: the API server's audit log, request by request, and whether each one changed something.

Nothing of Sickbay is imported here or in ``checker.py``: a witness that shares code with the accused proves nothing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Json = Mapping[str, Any]

_READS: Final = frozenset({"get", "list", "watch"})
_ENDED: Final = frozenset({"ResponseComplete", "Panic"})
_CUT_OFF: Final = 499
"""From here on the client was gone or the server failed: the write may have been carried out all the same."""


@dataclass(frozen=True)
class Request:
    """One request that ended.

    Attributes:
        line: in the log, from 1.
        resource: ``resource`` or ``resource/subresource``.
        code: HTTP status; 0 where the log has none.
        sent: body, ``{}`` where the log keeps none.
        answer: likewise.
        changed: whether an object is another one since; None: the log cannot tell.
    """

    line: int
    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    sent: Json
    answer: Json
    changed: bool | None

    @property
    def accepted(self) -> bool:
        """Whether the API server said yes."""
        return 200 <= self.code < 300

    @property
    def uid(self) -> str:
        """Uid that the request named as precondition, ``""`` if none."""
        options = self.sent.get("deleteOptions") or self.sent
        return str((options.get("preconditions") or {}).get("uid", ""))

    @property
    def version(self) -> int:
        """Version of the answered object: the order in which writes were taken. 0 if the answer has none."""
        return int(metadata(self.answer).get("resourceVersion", 0))

    @property
    def what(self) -> str:
        """Name it for people."""
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"line {self.line}: {self.verb} {self.resource} {where} -> {self.code}"


def metadata(body: Json) -> Json:
    """Give the metadata of an object, or of a patch of one."""
    return body.get("metadata") or {}


def notes(body: Json) -> Json:
    """Give the annotations of an object, or of a patch of one."""
    return metadata(body).get("annotations") or {}


def writes(log: Iterable[str], user: str) -> Iterator[Request]:
    """Tell every request of this user that was meant to change something, oldest first; dry runs are left out.

    What others wrote is read too: whoever deletes an object that is already being deleted changes nothing.
    """
    versions: dict[tuple[str, ...], set[str]] = defaultdict(set)
    events = list(_writes(log))
    deletions = _deletions(events)
    for number, event in events:
        ref = event.get("objectRef") or {}
        sent, answer = event.get("requestObject") or {}, event.get("responseObject") or {}
        code = (event.get("responseStatus") or {}).get("code", 0)
        name = ref.get("name") or metadata(sent).get("name", "")
        request = Request(
            line=number,
            verb=event["verb"],
            resource="/".join(part for part in (ref.get("resource", ""), ref.get("subresource", "")) if part),
            namespace=ref.get("namespace", ""),
            name=name,
            code=code,
            sent=sent,
            answer=answer,
            changed=_changed(
                event["verb"], code, sent, answer, versions[ref.get("resource", ""), name], first=number in deletions
            ),
        )
        if request.accepted and (version := metadata(answer).get("resourceVersion")):
            versions[ref.get("resource", ""), name].add(version)
        if (event.get("impersonatedUser") or event["user"])["username"] == user:
            yield request


def _writes(log: Iterable[str]) -> Iterator[tuple[int, Json]]:
    """Give the requests that ended and were meant to change something, each with its line."""
    for number, line in enumerate(log, 1):
        event = json.loads(line)
        if event["stage"] in _ENDED and event["verb"] not in _READS and "dryRun=All" not in event.get("requestURI", ""):
            yield number, event


def _deletions(events: Iterable[tuple[int, Json]]) -> set[int]:
    """Give the lines of the DELETEs that changed something: of each uid the first that came and was accepted.

    The log has requests in the order in which they were answered: on a busy machine kubelet may have removed a pod
    before the answer to who marked it for that is logged.
    """
    first: dict[str, tuple[str, int]] = {}
    for number, event in events:
        code = (event.get("responseStatus") or {}).get("code", 0)
        if event["verb"] == "delete" and 200 <= code < 300:
            uid = _deleted_uid(event.get("requestObject") or {}, event.get("responseObject") or {})
            came = event.get("requestReceivedTimestamp", ""), number
            first[uid] = min(came, first.get(uid, came))
    return {number for _, number in first.values()}


def _changed(verb: str, code: int, sent: Json, answer: Json, versions: set[str], *, first: bool) -> bool | None:
    if code == 0 or code >= _CUT_OFF:
        return None
    if not 200 <= code < 300:
        return False
    if verb == "create":
        return True
    if verb == "delete":
        return first
    version = metadata(answer).get("resourceVersion")
    return version != metadata(sent).get("resourceVersion") and version not in versions


def _deleted_uid(sent: Json, answer: Json) -> str:
    """Tell whom a DELETE met: the object that it marked, the one that it removed, or the only one it would take."""
    removed = (answer.get("details") or {}).get("uid")
    return str(removed or metadata(answer).get("uid") or (sent.get("preconditions") or {}).get("uid", ""))
