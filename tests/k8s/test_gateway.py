"""The door to the API server: what it raises, what it leaves behind, and who it says we are."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from textwrap import dedent
from urllib.parse import urlsplit

import pytest
import yaml
from kubernetes.aio.config import incluster_config
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from k8s import credentials, resources
from k8s.gateway import MERGE_PATCH, Gateway, decode, error_from, stream_error
from k8s.lab.lab import Lab, default_account
from sickbay import errors
from sickbay.telemetry import tracing
from sickbay.telemetry.exporting import exporting
from tests.collector import collecting, told
from tests.k8s.scripted import cut, says, scripted, serving, silence, status, streams


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Expired", errors.Gone),
        (418, "", errors.ClusterError),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "", errors.ServerFault),
        (504, "Timeout", errors.ServerFault),
    ],
)
def test_refusals_become_their_class(code: int, reason: str, kind: type[errors.ClusterError]) -> None:
    """Each HTTP status has one class, and the reason tells the two kinds of 409 apart."""
    error = error_from(code, json.dumps(status(code, reason, "no")).encode(), request="GET /x")
    assert type(error) is kind
    assert (error.status, error.reason, error.message, error.request) == (code, reason, "no", "GET /x")


def test_a_refusal_keeps_causes_and_waiting_time() -> None:
    """Causes of an eviction's 429 and the seconds to wait come through, nulls among them do no harm."""
    body = status(
        429, "TooManyRequests", "no", retryAfterSeconds=7, causes=[{"reason": "DisruptionBudget", "message": None}]
    )
    error = error_from(429, json.dumps(body).encode())
    assert error.causes == (errors.Cause("DisruptionBudget", "", ""),)
    assert error.retry_after == 7
    assert error_from(429, json.dumps(body).encode(), retry_after="3").retry_after == 3


@pytest.mark.parametrize("body", [b"<html>\n<h1>Bad\tGateway</h1>", b"\xff\xfe", b"", b'{"message":5}', b"[" * 5000])
def test_a_refusal_without_a_status_object_is_one_line(body: bytes) -> None:
    """A proxy's page or broken bytes become one line of text, whatever they are."""
    error = error_from(502, body)
    assert type(error) is errors.ServerFault
    assert "\n" not in str(error)
    assert len(str(error)) < 300


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (status(410, "Expired"), errors.Gone),
        ({"reason": "Expired"}, errors.Gone),
        (status(500), errors.ServerFault),
        (None, errors.ServerFault),
    ],
)
def test_an_error_event_is_translated_like_a_status(body: object, kind: type[errors.ClusterError]) -> None:
    """The object of an ERROR event takes its class from its code, else from its reason."""
    assert type(stream_error(json.dumps(body).encode())) is kind


async def test_no_answer_is_unavailable(tmp_path: Path) -> None:
    """A cut connection, a late answer and a closed port are all ClusterUnavailable, and name the server."""
    async with scripted(tmp_path) as (server, gateway):
        server.script.extend([cut(), silence()])
        with pytest.raises(errors.ClusterUnavailable, match=f"POST /x: .*{server.url}"):
            await gateway.request("POST", "/x", body={})
        with pytest.raises(errors.ClusterUnavailable, match="TimeoutError"):
            await gateway.request("GET", "/x", wait=0.05)
    async with await Gateway.connect(kubeconfig=server.kubeconfig(tmp_path)) as gateway:
        with pytest.raises(errors.ClusterUnavailable):
            await gateway.request("GET", "/x")
        with pytest.raises(errors.ClusterUnavailable):
            _ = [line async for line in gateway.stream("/x", {}, idle=1)]


async def test_each_request_is_told_by_how_it_ended(tmp_path: Path) -> None:
    """Verb, Ok or the class of the error, and how long it took; a request that nobody waits for any more is none."""
    heard: list[tuple[str, str]] = []
    async with serving() as server:
        server.script.extend([says(200, {}), says(404, status(404)), cut(), silence(), says(429, status(429))])
        kubeconfig = server.kubeconfig(tmp_path)
        async with await Gateway.connect(kubeconfig=kubeconfig, told=lambda *a: heard.append(a[:2])) as gateway:
            await gateway.request("GET", "/x")
            for kind in (errors.NotFound, errors.ClusterUnavailable):
                with pytest.raises(kind):
                    await gateway.request("POST", "/x", body={})
            given_up = asyncio.create_task(gateway.request("GET", "/x"))
            await server.until(lambda: len(server.asked) == 4)
            given_up.cancel()
            await asyncio.wait([given_up])
            with pytest.raises(errors.TooManyRequests):
                _ = [line async for line in gateway.stream("/x", {}, idle=5)]
    assert heard == [
        ("GET", "Ok"),
        ("POST", "NotFound"),
        ("POST", "ClusterUnavailable"),
        ("WATCH", "TooManyRequests"),
    ]


async def test_a_request_of_a_story_is_told_in_it(tmp_path: Path) -> None:
    """With its type, status and path; a refusal that is an answer is no failure, another one is."""
    path = "/api/v1/namespaces/a/pods/b/eviction"
    async with scripted(tmp_path) as (server, gateway):
        server.script.extend([says(404, status(404)), says(403, status(403))])
        with collecting() as collector, exporting(f"{collector.endpoint}/v1/traces", lost=lambda _: None):
            with tracing.part("p", "incident/a/1"):
                for kind in (errors.NotFound, errors.Forbidden):
                    with pytest.raises(kind):
                        await gateway.request("POST", path, body={})
            collector.wait_for_spans()
    _, answered, failed = collector.spans
    assert answered.name == failed.name == "POST pods/eviction"
    assert told(answered).items() >= {"http.response.status_code": 404, "url.path": path}.items()
    assert (answered.status.code, failed.status.code) == (Status.STATUS_CODE_UNSET, Status.STATUS_CODE_ERROR)


async def test_a_stream_splits_lines_of_any_size(tmp_path: Path) -> None:
    """Lines larger than aiohttp's buffer and lines cut anywhere come out whole; an unfinished last one does not."""
    big = b"x" * (3 << 20)
    async with scripted(tmp_path) as (server, gateway):
        server.script.append(streams(b"a\nb", b"c\n", big + b"\n", b"\n", b"half"))
        assert [line async for line in gateway.stream("/x", {}, idle=5)] == [b"a", b"bc", big]


async def gather(lines: AsyncIterator[bytes], into: list[bytes]) -> None:
    """Read a stream to its end, keeping what came before an error."""
    async for line in lines:
        into.append(line)  # noqa: PERF401 - extend() would keep nothing if the stream raises


async def test_a_stream_that_breaks_raises(tmp_path: Path) -> None:
    """A refused watch, a cut one, one that falls silent and one that never begins are errors of their own kind."""
    async with scripted(tmp_path) as (server, gateway):
        server.script.extend(
            [
                says(429, status(429), Retry_After="2"),
                streams(b"a\n", then=cut()),
                streams(b"a\n", then=silence()),
                silence(),
            ]
        )
        with pytest.raises(errors.TooManyRequests) as refused:
            _ = [line async for line in gateway.stream("/x", {}, idle=5)]
        assert refused.value.retry_after == 2
        seen: list[bytes] = []
        for limits in ({"idle": 5.0}, {"idle": 0.05}, {"idle": 60.0, "connect": 0.05}):
            with pytest.raises(errors.ClusterUnavailable):
                await gather(gateway.stream("/x", {}, **limits), seen)
        assert seen == [b"a", b"a"]


async def test_a_stream_left_early_closes_its_connection(tmp_path: Path) -> None:
    """Leaving a watch in the middle, by break or by cancellation, ends it at the server; nothing of it is reused."""
    async with scripted(tmp_path) as (server, gateway):
        server.script.extend([streams(b"a\n", then=silence()), streams(b"b\n", then=silence()), says(200, {})])
        async with aclosing(gateway.stream("/x", {}, idle=60)) as lines:
            async for _ in lines:
                break
        await server.until(lambda: server.open == 0)

        got = asyncio.Event()

        async def consume() -> None:
            async with aclosing(gateway.stream("/x", {}, idle=60)) as lines:
                async for _ in lines:
                    got.set()

        task = asyncio.create_task(consume())
        await got.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await server.until(lambda: server.open == 0)
        assert await gateway.request("GET", "/x") == b"{}"
        assert len({asked.peer for asked in server.asked}) == 3


async def test_short_requests_share_a_connection(tmp_path: Path) -> None:
    """Requests one after the other use one connection, refused ones too."""
    async with scripted(tmp_path) as (server, gateway):
        server.script.extend([says(200, {}), says(404, status(404)), says(200, {})])
        await gateway.request("GET", "/x")
        with pytest.raises(errors.NotFound):
            await gateway.request("GET", "/x")
        await gateway.request("GET", "/x")
        assert len({asked.peer for asked in server.asked}) == 1


async def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server on a loopback address is reached directly, whatever proxy the environment names."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with scripted(tmp_path) as (server, gateway):
        server.script.append(says(200, {}))
        assert await gateway.request("GET", "/x") == b"{}"


async def test_writes_name_our_field_manager(tmp_path: Path) -> None:
    """Every write carries our field manager and our user agent, and a patch its own content type."""
    async with scripted(tmp_path) as (server, gateway):
        server.script.extend([says(200, {})] * 4)
        for method in ("POST", "PUT", "PATCH", "GET"):
            await gateway.request(method, "/x", body={}, content_type=MERGE_PATCH, params={"dryRun": "All"})
        assert [asked.query.get("fieldManager") for asked in server.asked] == ["sickbay", "sickbay", "sickbay", None]
        assert all(asked.query["dryRun"] == "All" for asked in server.asked)
        assert all(asked.headers["User-Agent"].startswith("sickbay/") for asked in server.asked)
        assert server.asked[2].headers["Content-Type"] == MERGE_PATCH


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "of another type"),
        ("a: [", "kubeconfig"),
        ("[]", "of another type"),
        ("{}", "current-context"),
        (None, "no such file"),
        (
            """
            clusters: [{name: c, cluster: {server: https://x, certificate-authority: /no}}]
            contexts: [{name: x, context: {cluster: c}}]
            current-context: x
            """,
            "kubeconfig",
        ),
    ],
)
async def test_a_bad_kubeconfig_is_one_clear_line(tmp_path: Path, content: str | None, told: str) -> None:
    """A kubeconfig that is missing, malformed or incomplete is a UsageError that names file and remedy."""
    file = tmp_path / "config"
    if content is not None:
        file.write_text(content)
    with pytest.raises(errors.UsageError) as raised:
        await Gateway.connect(kubeconfig=str(file))
    assert str(file) in str(raised.value)
    assert told in str(raised.value)
    assert "--kubeconfig" in str(raised.value)
    assert "\n" not in str(raised.value)


async def test_no_configuration_at_all_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a kubeconfig and outside a cluster, the error tells what was looked for."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(
        errors.UsageError, match=r"nowhere', and no service account: this is no pod of a cluster; give one with --kube"
    ):
        await Gateway.connect()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT", raising=False)
    with pytest.raises(errors.UsageError, match=r"no service account: [^;]*[^.]; give one"):
        await Gateway.connect()


async def test_kubeconfig_of_the_environment_is_read_at_connect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KUBECONFIG counts as it is now, not as it was when the client was imported."""
    async with serving() as server:
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'nowhere'}:{server.kubeconfig(tmp_path)}")
        async with await Gateway.connect() as gateway:
            assert gateway.server == server.url


async def test_a_token_file_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rotated token is sent from the next refresh on; one that vanished is told as unavailable."""
    monkeypatch.setattr(credentials, "REFRESH", 0.0)
    token = tmp_path / "token"
    token.write_text("first")
    async with serving() as server:
        server.script.extend([says(200, {})] * 2)
        kubeconfig = server.kubeconfig(tmp_path, {"tokenFile": str(token)})
        async with await Gateway.connect(kubeconfig=kubeconfig) as gateway:
            await gateway.request("GET", "/x")
            token.write_text("second")
            await gateway.request("GET", "/x")
            token.unlink()
            with pytest.raises(errors.ClusterUnavailable, match="credentials"):
                await gateway.request("GET", "/x")
    assert [asked.headers["Authorization"] for asked in server.asked] == ["Bearer first", "Bearer second"]


def plugin(directory: Path, body: str) -> dict[str, object]:
    """Write a credential plugin, and give the kubeconfig user that runs it."""
    script = directory / "plugin.py"
    script.write_text(dedent(body))
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(script), str(directory / "count")],
        }
    }


COUNTING = """
    import json, pathlib, sys
    file = pathlib.Path(sys.argv[1])
    n = int(file.read_text()) + 1 if file.exists() else 1
    file.write_text(str(n))
    status = {"token": f"t{n}", "expirationTimestamp": "2020-01-01T00:00:00Z"}
    print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


async def test_a_credential_plugin_runs_again_when_its_token_has_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An expired token is fetched anew, once for all requests that wait for it."""
    async with serving() as server:
        server.script.extend([says(200, {})] * 4)
        kubeconfig = server.kubeconfig(tmp_path, plugin(tmp_path, COUNTING))
        async with await Gateway.connect(kubeconfig=kubeconfig) as gateway:
            await gateway.request("GET", "/x")
            monkeypatch.setattr(credentials, "REFRESH", 0.0)
            await asyncio.gather(*(gateway.request("GET", "/x") for _ in range(3)))
    assert [asked.headers["Authorization"] for asked in server.asked] == ["Bearer t1", *["Bearer t2"] * 3]


async def test_a_credential_plugin_that_fails_is_named(tmp_path: Path) -> None:
    """A plugin that gives nothing stops the start with its name, instead of going on as anonymous."""
    async with serving() as server:
        kubeconfig = server.kubeconfig(tmp_path, plugin(tmp_path, "raise SystemExit(1)"))
        with pytest.raises(errors.UsageError, match=r"credential plugin .*python.* gave no credentials"):
            await Gateway.connect(kubeconfig=kubeconfig)


async def test_a_slow_credential_plugin_counts_as_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request waits for fresh credentials no longer than for anything else."""
    slow = COUNTING.replace("status =", "import time; time.sleep(n - 1)\n    status =")
    async with serving() as server:
        kubeconfig = server.kubeconfig(tmp_path, plugin(tmp_path, slow))
        async with await Gateway.connect(kubeconfig=kubeconfig) as gateway:
            monkeypatch.setattr(credentials, "REFRESH", 0.0)
            with pytest.raises(errors.ClusterUnavailable, match="TimeoutError"):
                await gateway.request("GET", "/x", wait=0.1)
            server.script.append(says(200, {}))
            await gateway.request("GET", "/x", wait=10)
    assert [asked.headers["Authorization"] for asked in server.asked] == ["Bearer t2"]


@pytest.mark.lab
async def test_the_service_account_of_our_pod_is_used(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a pod, the mounted token and certificate authority are enough."""
    await default_account(lab.gateway, "default")
    config = yaml.safe_load((await lab.kubeconfig_for("default", "default")).read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    (tmp_path / "token").write_text(user["token"])
    (tmp_path / "ca.crt").symlink_to(cluster["certificate-authority"])
    server = urlsplit(cluster["server"])
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(server.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    async with await Gateway.connect() as gateway:
        with pytest.raises(errors.Forbidden, match="system:serviceaccount:default:default"):
            await gateway.request("GET", resources.PODS.path())


@pytest.mark.lab
async def test_odd_names_stay_names(lab: Lab) -> None:
    """A name with slashes, dots, spaces or percent signs is one segment for the real API server too."""
    for name in ("a/b", "a b", "a%2Fb", "a?b", "...", "a#b", "ü"):
        with pytest.raises((errors.NotFound, errors.BadRequest)):
            await lab.gateway.request("GET", resources.CONFIGMAPS.path("default", name))
    selector = {"labelSelector": "a in (b,c),!d"}
    assert (
        decode(await lab.gateway.request("GET", resources.CONFIGMAPS.path("default"), params=selector))["items"] == []
    )


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_is_no_segment_is_refused(name: str) -> None:
    """An empty name would address the whole collection, and dots another path: neither gets into a URL."""
    with pytest.raises(ValueError, match="cannot name"):
        resources.PODS.path("default", name)
    with pytest.raises(ValueError, match="cannot name"):
        resources.PODS.path(name, "pod")


def test_paths_are_built_by_scope() -> None:
    """Core and group types, namespaced or not, objects and subresources have their usual paths."""
    assert resources.PODS.path() == "/api/v1/pods"
    assert resources.PODS.path("a", "b", "eviction") == "/api/v1/namespaces/a/pods/b/eviction"
    assert resources.DEVICETAINTRULES.path(name="x") == "/apis/resource.k8s.io/v1/devicetaintrules/x"
    assert resources.LEASES.api_version == "coordination.k8s.io/v1"
    for wrong in ({"name": "x"}, {"namespace": "a", "subresource": "status"}):
        with pytest.raises(ValueError, match="pods"):
            resources.PODS.path(**wrong)
    with pytest.raises(ValueError, match="cluster-scoped"):
        resources.NODES.path("a")


async def test_the_best_served_version_is_found(tmp_path: Path) -> None:
    """Discovery takes the first version that holds the type, and None where none does."""
    async with scripted(tmp_path) as (server, gateway):
        group = {"resources": [{"name": "resourceslices"}]}
        rules = {"resources": [{"name": "devicetaintrules"}, {"name": "devicetaintrules/status"}]}
        server.script.extend([says(200, group), says(404, status(404)), says(200, rules)])
        assert await resources.served(gateway) == resources.DEVICETAINTRULES_V1ALPHA3
        server.script.extend([says(200, group), says(404, status(404)), says(404, status(404))])
        assert await resources.served(gateway) is None
        server.script.append(says(503, status(503)))
        with pytest.raises(errors.ServerFault):
            await resources.served(gateway)


@pytest.mark.lab
async def test_the_lab_serves_the_stable_version(lab: Lab) -> None:
    """A 1.37 API server serves taint rules as v1 without any flag."""
    assert await resources.served(lab.gateway) == resources.DEVICETAINTRULES
