"""Is Temporal there, is it the one whose incidents the records name, and does a worker carry them out?"""

from __future__ import annotations

from k8s.control import ControlMap
from sickbay import errors
from sickbay.cli.checkup.finding import Finding, Scene, Severity
from sickbay.model.contracts import Queue


async def temporal(scene: Scene) -> list[Finding]:
    """Frontend, namespace, and a worker for this cluster's incidents."""
    try:
        return await _temporal(scene)
    except errors.TemporalUnavailable as error:
        remedy = "start it, or name another with --temporal-address and --temporal-namespace"
        return [Finding("Temporal", Severity.ERROR, str(error), remedy)]


async def _temporal(scene: Scene) -> list[Finding]:
    namespace_id = await scene.temporal.namespace_id()
    version = await scene.temporal.version()
    reached = Finding("Temporal", Severity.OK, f"{version or 'no version'} at {scene.temporal.where}")
    try:
        control = await ControlMap(scene.gateway).read()
    except (errors.SickbayError, errors.ClusterError):
        return [reached]  # what is wrong there is another check's to say
    if control.namespace_id != namespace_id:
        what = (
            f"namespace id {namespace_id} is not {control.namespace_id or 'empty'}, which was installed: the records"
            " name incidents that this Temporal does not know"
        )
        remedy = (
            "use the Temporal of before; only if its database is lost for good, run 'sickbay install --adopt-namespace'"
        )
        return [Finding("TemporalNamespace", Severity.ERROR, what, remedy)]
    worker = await scene.temporal.polled(Queue.INCIDENT.of(control.cluster))
    return [
        reached,
        Finding("TemporalNamespace", Severity.OK, f"{namespace_id}, as installed"),
        Finding("Worker", Severity.OK, "polls for this cluster's incidents")
        if worker
        else Finding(
            "Worker",
            Severity.ERROR,
            f"nobody polls task queue {Queue.INCIDENT.of(control.cluster)}: incidents stand still",
            "start 'sickbay run' or 'sickbay worker'",
        ),
    ]
