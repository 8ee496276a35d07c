"""What an answer of Prometheus means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sickbay.model.business import Business
from sickbay.model.contracts import BusinessVerdict, CheckBusiness
from sickbay.model.device import DeviceKey
from sickbay.model.incident import Verdict
from sickbay.policy.prometheus import Answer, judge, query_of
from tests.builders import target

BETWEEN = Business(prometheus="http://p", query="up", min=1, max=2)


def vector(*values: object) -> dict[str, Any]:
    """Build a result of so many series."""
    return {"resultType": "vector", "result": [{"metric": {}, "value": [1.5, value]} for value in values]}


def said(data: object, **more: object) -> Answer:
    """Build an answer of status 200."""
    return Answer(200, json.dumps({"status": "success", "data": data, **more}).encode())


@pytest.mark.parametrize(
    ("number", "settings", "verdict"),
    [
        ("1", BETWEEN, Verdict.PASS),
        ("2", BETWEEN, Verdict.PASS),
        ("0.999", BETWEEN, Verdict.FAIL),
        ("2.001", BETWEEN, Verdict.FAIL),
        ("-1e9", BETWEEN.model_copy(update={"min": None}), Verdict.PASS),
        ("1e9", BETWEEN.model_copy(update={"max": None}), Verdict.PASS),
        ("-0", BETWEEN.model_copy(update={"min": 0.0}), Verdict.PASS),
    ],
)
def test_one_number_passes_or_fails_by_its_bounds(number: str, settings: Business, verdict: Verdict) -> None:
    """Both bounds belong to what is good."""
    told = judge(said(vector(number)), settings)
    assert (told.verdict, told.value) == (verdict, float(number))
    assert told.message.startswith(f"{float(number):g}, good is ")


def test_a_scalar_is_a_number_too() -> None:
    """As of ``scalar()``."""
    assert judge(said({"resultType": "scalar", "result": [1.5, "1.5"]}), BETWEEN).verdict is Verdict.PASS


def error(status: int, text: str) -> Answer:
    """Build an error as Prometheus words it."""
    return Answer(status, json.dumps({"status": "error", "errorType": "bad_data", "error": text}).encode())


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (said(vector()), "NoData"),
        (said(vector("1", "1")), "SeveralSeries"),
        (said(vector("NaN")), "NotANumber"),
        (said(vector("+Inf")), "NotANumber"),
        (said(vector("-Inf")), "NotANumber"),
        (said(vector("many")), "NotANumber"),
        (said(vector(None)), "NotANumber"),
        (said(vector(1.5)), "NotANumber"),
        (said(vector({"1": 1.5})), "NotANumber"),
        (said(vector(10**400)), "NotANumber"),
        (said(vector("1e400")), "NotANumber"),
        (said(vector("1_5")), "NotANumber"),
        (said(vector("\u0661")), "NotANumber"),
        (said(vector(" 1.5")), "NotANumber"),
        (said({"resultType": "vector", "result": [{"value": "12"}]}), "NotANumber"),
        (said({"resultType": "vector", "result": [{"value": {"a": 1, "2": 3}}]}), "NotANumber"),
        (said({"resultType": "vector", "result": [{"value": [1.5, "1.5", "1.5"]}]}), "NotANumber"),
        (said({"resultType": "vector", "result": [{"metric": {}, "histogram": [1, {}]}]}), "NotANumber"),
        (said({"resultType": "vector", "result": [7]}), "NotANumber"),
        (said({"resultType": "vector", "result": {}}), "NotANumber"),
        (said({"resultType": "matrix", "result": [{"values": [[1, "1.5"]]}]}), "NotANumber"),
        (said({"resultType": "string", "result": [1.5, "1.5"]}), "NotANumber"),
        (said({"resultType": "scalar", "result": None}), "NotANumber"),
        (said(vector("1.5"), warnings=["one store did not answer"]), "Partial"),
        (said(vector("1.5"), isPartial=True), "Partial"),
        (said(None), "Unreadable"),
        (Answer(200, b"<html>log in</html>"), "Unreadable"),
        (Answer(200, b"[" * 50_000), "Unreadable"),
        (Answer(200, b"1.5"), "Unreadable"),
        (Answer(200, b""), "Unreadable"),
        (Answer(200, b"\xff\xfe"), "Unreadable"),
        (error(200, "odd"), "Unreadable"),
        (Answer(204, b""), "HttpError"),
        (Answer(302, b""), "Redirected"),
        (Answer(401, b""), "Locked"),
        (Answer(403, b"no"), "Locked"),
        (error(400, "parse error"), "QueryRefused"),
        (error(422, "many-to-many"), "QueryRefused"),
        (Answer(400, b"no"), "HttpError"),
        (Answer(404, b""), "HttpError"),
        (error(503, "timeout"), "HttpError"),
    ],
)
def test_anything_else_does_not_count(answer: Answer, cause: str) -> None:
    """It proves nothing, good or bad; and what holds a good number beside something odd is no good number."""
    told = judge(answer, BETWEEN)
    assert (told.verdict, told.cause, told.value) == (Verdict.INCONCLUSIVE, cause, None)
    assert told.message


def test_what_a_server_says_is_tamed() -> None:
    """It is shown to people, in Markdown and in logs."""
    told = judge(error(400, "<b>[x](http://evil)\n" + "y" * 1000), BETWEEN)
    assert len(told.message) <= 200
    assert not set("<>[]\n") & set(told.message)


def asked(query: str, **changes: Any) -> CheckBusiness:
    """Build a question about a device with an odd name."""
    device = DeviceKey(cluster="lab", driver="gpu.example.com", pool="node-1", device='gpu"0')
    settings = BETWEEN.model_copy(update={"query": query})
    step = CheckBusiness(target=target(device), node="node-1", hardware_id="GPU-0", settings=settings)
    return step.model_copy(update=changes)


def test_the_query_names_the_device() -> None:
    """By everything that it is known by."""
    query = 'x{a="$device", b="$pool", c="$driver", d="$node", e="$hardware"}'
    assert query_of(asked(query)) == r'x{a="gpu\"0", b="node-1", c="gpu.example.com", d="node-1", e="GPU-0"}'


@pytest.mark.parametrize(("place", "changes"), [("node", {"node": ""}), ("hardware", {"hardware_id": "unknown"})])
def test_a_query_is_not_asked_without_a_value_that_it_names(place: str, changes: dict[str, str]) -> None:
    """An empty value would match whatever lacks the label."""
    told = query_of(asked(f'x{{a="${place}"}}', **changes))
    assert isinstance(told, BusinessVerdict)
    assert (told.verdict, told.cause) == (Verdict.INCONCLUSIVE, "NotKnown")
    assert f"${place}" in told.message
    assert query_of(asked("vector(1)", **changes)) == "vector(1)"
