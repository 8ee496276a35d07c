"""One process: watcher, worker, or both on one Temporal client, which is what eager start needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import structlog
from temporalio.client import TLSConfig

from activities.prometheus import Prometheus
from k8s.gateway import Gateway
from sickbay import errors
from sickbay.model.policy import Policy
from sickbay.settings import Settings
from sickbay.telemetry.exporting import endpoint_of, exporting
from sickbay.telemetry.health import Readiness, serving
from sickbay.telemetry.metrics import Metrics
from sickbay.temporal import Temporal
from workers import contact, watcher, worker
from workers.checks import look_around, require_temporal
from workers.contact import Contact
from workers.core import forward_logs
from workers.metering import Metering
from workers.process import together
from workers.verbs import verbs

log = structlog.get_logger(__name__)


async def run(settings: Settings, policy: Policy | None, stop: asyncio.Event, *, works: bool) -> None:
    """Run one process until asked to stop.

    Args:
        settings: where things are.
        policy: what the watcher goes by; None = no watcher in this process.
        stop: asks for the end.
        works: whether a worker runs in this process.

    Raises:
        UsageError: something that a person can mend.
        UnavailableError: no cluster, or no Temporal in a process that can do nothing without it.
    """
    forward_logs()
    metrics = Metrics()
    readiness = Readiness("cluster", contact.CHECK)
    async with AsyncExitStack() as stack:
        stack.enter_context(exporting(endpoint_of(settings.otlp_endpoint), lost=metrics.spans_lost))
        gateway = await stack.enter_async_context(
            await Gateway.connect(kubeconfig=settings.kubeconfig, context=settings.context, told=metrics.api)
        )
        cluster = await look_around(gateway, settings.cluster)
        readiness.has("cluster")
        temporal = temporal_of(settings, eager=works and policy is not None, told=metrics.temporal_call)
        if policy is None:
            await require_temporal(temporal)
        address = await stack.enter_async_context(serving(settings.listen, readiness, metrics))
        log.info("process_started", cluster=cluster, server=gateway.server, health=f"http://{address}")
        link = Contact(temporal, readiness, metrics, without="fencing" if policy else "nothing")
        parts = [link.keep(stop)]
        if policy is not None:
            election = await stack.enter_async_context(
                await Gateway.connect(kubeconfig=settings.kubeconfig, context=settings.context, told=metrics.api)
            )
            parts.append(watcher.run(gateway, election, temporal, policy, cluster, readiness, metrics, stop))
        if works:
            parts.append(_work(gateway, temporal, cluster, link, readiness, Metering(metrics), settings, stop))
        await together(stop, *parts)


def temporal_of(settings: Settings, *, eager: bool = False, told: Callable[[str], None] = lambda _: None) -> Temporal:
    """Build the connection that the settings describe; nothing is sent yet.

    Raises:
        UsageError: a file of theirs cannot be read.
    """
    tls: TLSConfig | bool = settings.tls
    if settings.temporal_tls_ca or settings.temporal_tls_cert:
        tls = TLSConfig(
            server_root_ca_cert=_pem(settings.temporal_tls_ca, "temporal-tls-ca"),
            client_cert=_pem(settings.temporal_tls_cert, "temporal-tls-cert"),
            client_private_key=_pem(settings.temporal_tls_key, "temporal-tls-key"),
        )
    key = settings.temporal_api_key
    return Temporal(
        settings.temporal_address,
        namespace=settings.temporal_namespace,
        tls=tls,
        api_key=key.get_secret_value() if key else None,
        eager=eager,
        trace_url=settings.trace_url or "",
        told=told,
    )


async def _work(
    gateway: Gateway,
    temporal: Temporal,
    cluster: str,
    link: Contact,
    readiness: Readiness,
    metering: Metering,
    settings: Settings,
    stop: asyncio.Event,
) -> None:
    """Work as soon as Temporal is there, and again whenever a worker could not go on."""
    readiness.lacks("worker", "waits for temporal")
    activities = verbs(gateway, Prometheus(settings.prometheus_token_file))
    while await link.up_before(stop):
        try:
            client = await temporal.client()
            workers = worker.build(client, cluster, activities, metering, settings.grace)
            await worker.run(workers, stop, lambda: readiness.has("worker"))
        except (errors.TemporalUnavailable, RuntimeError) as error:  # the SDK's own for a worker that cannot go on
            readiness.lacks("worker", f"starts again after: {error}")
            log.warning("worker_broke_off", error=str(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), contact.WHILE_AWAY.total_seconds())


def _pem(file: Path | None, name: str) -> bytes | None:
    if file is None:
        return None
    try:
        return file.read_bytes()
    except OSError as error:
        raise errors.UsageError(f"{name}: cannot read {file}: {error.strerror}; give a PEM file that exists") from error
