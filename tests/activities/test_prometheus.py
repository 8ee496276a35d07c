"""One question to a Prometheus: a real one, and a server that says what a real one does not say on command."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from prometheus_client import CollectorRegistry, Gauge
from structlog.testing import capture_logs

from activities.prometheus import LARGEST, Prometheus
from k8s.lab.process import free_ports
from sickbay.model.business import Business
from sickbay.model.contracts import BusinessVerdict, CheckBusiness
from sickbay.model.incident import Verdict
from sickbay.policy.prometheus import Answer, judge, query_of
from tests.builders import DEVICE, target
from tests.crash.waiting import until
from tests.k8s.scripted import Answer as Scene
from tests.k8s.scripted import Scripted, cut, says, serving, silence, streams
from tests.prometheus import RunningPrometheus, needs_prometheus, scraped

SOON = timedelta(milliseconds=300)

GOOD = {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "1.5"]}]}}

ODD = ["gpu-0", ".*", 'x"} or vector(1) # ', "back\\slash\\", "two\nlines", "it's", "größe-🎛", "$device", "a.b"]
"""Names of devices, as drivers might make them up; the number of each is its place."""


async def checked(
    address: str, query: str, device: str = "gpu-0", prometheus: Prometheus | None = None
) -> BusinessVerdict:
    """Ask about a device, as the activity does; good is at least 0."""
    settings = Business(prometheus=address, query=query, min=0)
    named = DEVICE.model_copy(update={"device": device})
    asked = query_of(CheckBusiness(target=target(named), node="node-1", hardware_id="GPU-0", settings=settings))
    assert isinstance(asked, str)
    answer = await (prometheus or Prometheus()).ask(address, asked)
    return answer if isinstance(answer, BusinessVerdict) else judge(answer, settings)


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[RunningPrometheus]:
    """Give a Prometheus that knows a number of each odd device."""
    registry = CollectorRegistry()
    good = Gauge("good", "How good a device is.", ["device"], registry=registry)
    for number, device in enumerate(ODD):
        good.labels(device).set(number)
    Gauge("odd", "No number.", registry=registry).set(float("nan"))
    Gauge("bad", "A number.", registry=registry).set(-1)
    async with scraped(registry, tmp_path) as prometheus:

        async def there() -> bool:
            return (await checked(prometheus.address, "bad")).verdict is Verdict.FAIL

        await until("the first scrape", there, within=30)
        yield prometheus


@needs_prometheus
@pytest.mark.lab
async def test_a_real_one_answers_for_exactly_the_device_that_is_meant(real: RunningPrometheus) -> None:
    """Whatever it is named, by an equal label and by a regular expression; what is not known is no answer."""
    for number, device in enumerate(ODD):
        for query in ('good{device="$device"}', "good{device='$device'}", 'good{device=~"$device"}'):
            told = await checked(real.address, query, device)
            assert (told.verdict, told.value) == (Verdict.PASS, number), (device, query)
        assert (await checked(real.address, 'good{device="$device."}', device)).cause == "NoData", device
    assert (await checked(real.address, 'good{device!="$device"}')).cause == "SeveralSeries"
    assert (await checked(real.address, 'count(good{device!~"$device"})', ".*")).value == len(ODD) - 1


@needs_prometheus
@pytest.mark.lab
async def test_a_real_one_says_in_its_own_words_what_does_not_count(real: RunningPrometheus) -> None:
    """Among them that it was killed."""
    for query, cause in (
        ("bad", "OutOfBounds"),
        ("scalar(good{device='gpu-0'})", "InBounds"),
        ("odd", "NotANumber"),
        ("missing", "NoData"),
        ("good", "SeveralSeries"),
        ("good[1m]", "NotANumber"),
        ("'text'", "NotANumber"),
        ("good{", "QueryRefused"),
        ("good / on() good", "QueryRefused"),
    ):
        told = await checked(real.address, query)
        assert told.cause == cause, told
    assert (await checked(real.address + "/elsewhere", "bad")).cause == "HttpError"
    await real.process.kill()
    assert (await checked(real.address, "bad")).cause == "Unreachable"


@pytest.fixture
async def server() -> AsyncIterator[Scripted]:
    """Give a server that says what the test tells it."""
    async with serving() as server:
        yield server


def drips() -> Scene:
    """Begin an answer, and never come to its end."""
    return streams(b'{"status": "success", ', then=silence())


@pytest.mark.parametrize(
    ("scene", "cause"),
    [
        (says(200, GOOD), "InBounds"),
        (says(302, GOOD, Location="/api/v1/elsewhere"), "Redirected"),
        (says(307, GOOD, Location="/api/v1/elsewhere"), "Redirected"),
        (says(401, b"who are you"), "Locked"),
        (says(500, b"oops"), "HttpError"),
        (says(200, b"x" * (LARGEST + 1)), "TooLarge"),
        (says(200, gzip.compress(b"x" * 10_000_000), Content_Encoding="gzip"), "Unreadable"),
        (streams(*[b"x" * 8192] * 9, then=silence()), "TooLarge"),
        (silence(), "TooSlow"),
        (drips(), "TooSlow"),
        (cut(), "Unreachable"),
    ],
)
async def test_an_odd_answer_does_not_count(server: Scripted, scene: Scene, cause: str) -> None:
    """It is cut short by time and size, no redirect is followed, and nothing is raised."""
    server.script.append(scene)
    told = await checked(
        server.url, "up", prometheus=Prometheus(within=SOON if cause == "TooSlow" else timedelta(seconds=9))
    )
    assert told.cause == cause
    assert told.verdict is (Verdict.PASS if cause == "InBounds" else Verdict.INCONCLUSIVE)
    assert len(server.asked) == 1


async def test_nobody_there_is_no_answer() -> None:
    """Nor is a name that is none."""
    assert (await checked(f"http://127.0.0.1:{free_ports(1)[0]}", "up")).cause == "Unreachable"
    assert (await checked("http://nowhere.invalid:9090", "up")).cause == "Unreachable"


async def test_what_is_sent(server: Scripted) -> None:
    """One POST with the query as a form, below the path that the address has; no token unless there is one."""
    server.script.append(says(200, GOOD))
    await checked(f"{server.url}/prometheus", 'up{d="$device"}')
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/prometheus/api/v1/query")
    assert parse_qs(asked.body.decode()) == {"query": ['up{d="gpu-0"}']}
    assert "Authorization" not in asked.headers


async def test_a_token_is_read_anew_each_time_and_goes_nowhere_else(server: Scripted, tmp_path: Path) -> None:
    """It is renewed while the process runs; neither log nor answer has it."""
    file = tmp_path / "token"
    prometheus = Prometheus(file)
    with capture_logs() as logs:
        for token in ("first", "second\n"):
            file.write_text(token)
            server.script.append(says(500))
            told = await checked(server.url, "up", prometheus=prometheus)
            assert token.strip() not in told.message
    assert [asked.headers["Authorization"] for asked in server.asked] == ["Bearer first", "Bearer second"]
    assert logs == []


@pytest.mark.parametrize("content", [None, b"", b" \n", b"two words", b"bad\x00byte", b"line\nline", b"\xff"])
async def test_a_token_that_cannot_be_sent_is_no_answer(
    server: Scripted, tmp_path: Path, content: bytes | None
) -> None:
    """Nothing is sent without it; the log names the file, and never what is in it."""
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with capture_logs() as logs:
        answer = await Prometheus(file).ask(server.url, "up")
    assert not isinstance(answer, Answer)
    assert answer.cause == "TokenUnreadable"
    assert server.asked == []
    (line,) = logs
    assert line["file"] == str(file)
    assert "word" not in line["error"]
