"""The forms of ``allocatedResourcesStatus``; that the API server accepts them is in ``test_standin.py``."""

from __future__ import annotations

from typing import Any

from k8s.lab.nodes.fleet import Health
from k8s.lab.nodes.status import Conditions, Containers, Held, container_statuses, init_container_statuses
from k8s.lab.nodes.wire import ClaimUse, Container, ContainerResources, Meta, Pod, PodSpec

RUNNING = Containers(started_at="2026-01-01T00:00:00Z")


def using(*uses: ClaimUse, name: str = "main") -> Container:
    """Build a container that uses claims."""
    return Container(name, resources=ContainerResources(uses))


def resources(held: list[Held], *containers: Container) -> list[list[dict[str, Any]]]:
    """Render, and pick each container's entries."""
    pod = Pod(Meta("p", uid="u"), PodSpec(containers=containers))
    statuses = container_statuses(pod, RUNNING, held, ready=True)
    return [status.get("allocatedResourcesStatus", []) for status in statuses]


def test_an_entry_is_named_as_its_container_names_the_claim() -> None:
    """With the request only if the container names it; each container that uses the claim has its own."""
    held = [Held("d", "a", "x/p/0", Health.HEALTHY), Held("d", "b", "x/p/1", Health.UNHEALTHY, "worn")]
    by_request, whole, none = resources(
        held, using(ClaimUse("d", "b")), using(ClaimUse("d"), name="whole"), using(name="none")
    )
    worn = {"resourceID": "x/p/1", "health": "Unhealthy", "message": "worn"}
    assert by_request == [{"name": "claim:d/b", "resources": [worn]}]
    assert whole == [{"name": "claim:d", "resources": [{"resourceID": "x/p/0", "health": "Healthy"}, worn]}]
    assert none == []


def test_a_sub_request_stands_under_its_base() -> None:
    """A container cannot name the alternative that was taken."""
    ((entry,),) = resources([Held("gpu", "alt/sub", "x/p/0", Health.HEALTHY)], using(ClaimUse("gpu", "alt")))
    assert entry["name"] == "claim:gpu/alt"


def test_of_two_devices_with_one_id_the_first_is_told() -> None:
    """As kubelet does."""
    held = [Held("d", "a", "id", Health.HEALTHY), Held("d", "a", "id", Health.UNHEALTHY)]
    ((entry,),) = resources(held, using(ClaimUse("d")))
    assert entry["resources"] == [{"resourceID": "id", "health": "Healthy"}]


def test_a_claim_for_extended_resources_has_no_entry() -> None:
    """As measured on 1.37."""
    assert resources([Held("", "r", "id", Health.UNHEALTHY)], using()) == [[]]


def test_a_long_message_is_cut_between_characters() -> None:
    """At 1,024 bytes."""
    ((entry,),) = resources([Held("d", "a", "id", Health.UNHEALTHY, "é" * 600)], using(ClaimUse("d")))
    assert entry["resources"][0]["message"] == "é" * 512


def test_init_containers_and_sidecars_never_tell_of_a_device() -> None:
    """Init containers are done, sidecars run."""
    done = using(ClaimUse("d"), name="init")
    sidecar = Container("sidecar", restart_policy="Always", resources=ContainerResources((ClaimUse("d"),)))
    pod = Pod(Meta("p", uid="u"), PodSpec(init_containers=(done, sidecar)))
    first, second = init_container_statuses(pod, RUNNING, "2026-01-01T00:00:00Z")
    assert first["state"]["terminated"]["reason"] == "Completed"
    assert second["state"] == {"running": {"startedAt": RUNNING.started_at}}
    assert "allocatedResourcesStatus" not in first.keys() | second.keys()


def test_a_condition_keeps_its_time_until_it_changes() -> None:
    """So that a patch names changed ones alone."""
    conditions = Conditions()
    conditions.set("Ready", true=True)
    (before,) = conditions.listed()
    conditions.set("Ready", true=True)
    assert conditions.listed() == [before]
    conditions.set("Ready", true=False, reason="ContainersNotReady")
    assert conditions.listed()[0]["status"] == "False"
