"""What an answer of Prometheus means: a number within the bounds, one outside of them, or nothing that counts. Pure.

The form is that of ``/api/v1/query`` of its HTTP API.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from sickbay.model import promql
from sickbay.model.base import tamed
from sickbay.model.business import Business
from sickbay.model.contracts import BusinessVerdict, CheckBusiness
from sickbay.model.device import UNKNOWN_HARDWARE
from sickbay.model.incident import Verdict

_REFUSED: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY})
"""Of the query itself: bad PromQL, or one that cannot be carried out."""

_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|Inf|NaN)")

_LOCKED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


@dataclass(frozen=True)
class Answer:
    """What came back.

    Attributes:
        status: of HTTP.
        body: undecoded, untrusted.
    """

    status: int
    body: bytes


def query_of(step: CheckBusiness) -> str | BusinessVerdict:
    """Fill in the query; or say that something it names is not known: a label that is not there matches nothing."""
    device = step.target.device
    values = {
        "device": device.device,
        "pool": device.pool,
        "driver": device.driver,
        "node": step.node,
        "hardware": "" if step.hardware_id == UNKNOWN_HARDWARE else step.hardware_id,
    }
    query = step.settings.query
    for place in sorted(promql.places(query)):
        if not values[place]:
            return no_answer("NotKnown", f"business.query names ${place}, which is not known of this device")
    return promql.filled(query, values)


def judge(answer: Answer, settings: Business) -> BusinessVerdict:
    """Judge an answer.

    Pass and fail need one finite number of a whole answer. No series, several, NaN, a warning: none of them counts,
    because none says that the device is good or bad.
    """
    if HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
        return no_answer("Redirected", f"status {answer.status}: it points elsewhere; name that address itself")
    said = _decoded(answer.body)
    if answer.status in _LOCKED:
        token = "give workers a token for it by --prometheus-token-file"  # noqa: S105 - how to give one
        return no_answer("Locked", f"status {answer.status}; {token}")
    if answer.status in _REFUSED and said.get("status") == "error":
        return no_answer("QueryRefused", f"it does not take business.query: {said.get('error')}")
    if answer.status != HTTPStatus.OK:
        return no_answer("HttpError", f"status {answer.status}")
    if said.get("status") != "success" or not isinstance(said.get("data"), dict):
        return no_answer("Unreadable", "it is not what Prometheus answers; is it the right address?")
    if said.get("isPartial"):  # as VictoriaMetrics says it
        return no_answer("Partial", "it says that its answer is partial")
    if said.get("warnings"):
        return no_answer("Partial", f"it warns that its answer may not be whole: {said['warnings']}")
    return _within(_number(said["data"]), settings)


def no_answer(cause: str, message: str) -> BusinessVerdict:
    """Say why an answer does not count.

    Args:
        cause: CamelCase.
        message: for people; made safe here.
    """
    return BusinessVerdict(cause=cause, message=tamed(message))


def _number(data: dict[str, Any]) -> float | BusinessVerdict:
    """Find the one number of a result."""
    kind: Any = data.get("resultType")
    result: Any = data.get("result")
    if kind == "vector" and isinstance(result, list):
        if not result:
            return no_answer("NoData", "it has no series that business.query finds")
        if len(result) > 1:
            return no_answer(
                "SeveralSeries", f"business.query finds {len(result)} series; make one of them, as by sum()"
            )
        result = result[0].get("value") if isinstance(result[0], dict) else None
    elif kind != "scalar":
        return no_answer("NotANumber", f"business.query gives a {kind}, not a number; ask for one moment")
    value = _float(result)
    if value is None:
        return no_answer("NotANumber", "business.query gives something else than a number")
    return value if math.isfinite(value) else no_answer("NotANumber", f"business.query gives {value}")


def _float(sample: object) -> float | None:
    """Read a sample as Prometheus writes it: a time, and a number as text. What only looks like one is none."""
    if not isinstance(sample, list) or len(sample) != len(("time", "number")):
        return None
    text = sample[1]
    return float(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else None


def _within(value: float | BusinessVerdict, settings: Business) -> BusinessVerdict:
    if isinstance(value, BusinessVerdict):
        return value
    text = f"{value:g}, good is {settings.bounds}"
    low = settings.min is not None and value < settings.min
    high = settings.max is not None and value > settings.max
    if low or high:
        return BusinessVerdict(verdict=Verdict.FAIL, cause="OutOfBounds", message=text, value=value)
    return BusinessVerdict(verdict=Verdict.PASS, cause="InBounds", message=text, value=value)


def _decoded(body: bytes) -> dict[str, Any]:
    """Decode a JSON object; anything else is an empty one."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
