"""From pods and claims to what is said of each device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8s.store import Item
from sickbay.model.device import DeviceKey
from sickbay.model.observation import Health, Observation, Reason
from sickbay.telemetry.metrics import Metrics
from sickbay.watch.translate import Translator
from tests.sickbay.watch import objects
from tests.sickbay.watch.objects import change, claim, device, entry, pod

GPU_0, GPU_1 = device("gpu-0"), device("gpu-1")


class Listener:
    """Keeps what a translator tells."""

    def __init__(self) -> None:
        """Begin with a translator that knows one claim of one device."""
        self.said: list[Observation] = []
        self.silent: list[tuple[DeviceKey, str]] = []
        self.metrics = Metrics()
        self.translator = Translator(
            objects.CLUSTER, self.said.append, lambda key, uid: self.silent.append((key, uid)), self.metrics
        )
        self._pods: dict[str, Item[Any]] = {}

    def hear(self, new: Item[Any]) -> list[Observation]:
        """Let it hear of a pod, and give what it tells."""
        before = len(self.said)
        name = new.object.metadata.name
        self.translator.on_pod(change(self._pods.get(name), new))
        self._pods[name] = new
        return self.said[before:]

    def counted(self, text: str) -> bool:
        """Say whether a metric has this line."""
        return text.encode() in self.metrics.exposed()


@pytest.fixture
def listener() -> Listener:
    """Make a listener whose pod's claim is known."""
    found = Listener()
    found.translator.on_claim(change(None, claim()))
    return found


def test_entry_becomes_an_observation(listener: Listener) -> None:
    """Device, source, version, node and the driver's text, tamed."""
    (told,) = listener.hear(pod(entry("Unhealthy", message="xid\n79 [x](http://evil)")))
    assert (told.device, told.health, told.resource_version, told.node) == (GPU_0, Health.UNHEALTHY, "10", "node-1")
    assert (told.source.kind, told.source.namespace, told.source.name) == ("Pod", "team", "train-0")
    assert told.message == "xid 79 x(http:evil)"


@pytest.mark.parametrize("word", ["PermanentlyUnhealthy", "unhealthy", " Healthy"])
def test_unlisted_word_is_unknown_and_counted(listener: Listener, word: str) -> None:
    """Any but the three words is Unknown; its text is no label."""
    (told,) = listener.hear(pod(entry(word)))
    assert (told.health, told.reason) == (Health.UNKNOWN, Reason.UNLISTED_HEALTH)
    assert listener.counted('sickbay_unparsed_total{reason="UnlistedHealth"} 1.0')


def test_entry_without_a_word_is_no_evidence(listener: Listener) -> None:
    """No word is not Healthy, and not Unknown either: that entry says nothing, and is counted."""
    assert listener.hear(pod(entry(None))) == []
    assert listener.counted('sickbay_unparsed_total{reason="Malformed"} 1.0')


def test_odd_entries_cost_only_themselves(listener: Listener) -> None:
    """Null lists, missing lists, empty ids: no exception, and the entry beside them counts."""
    odd: list[dict[str, Any]] = [
        {"name": "claim:gpu"},
        {"name": "claim:gpu", "resources": None},
        {"name": "claim:gpu/", "resources": []},
    ]
    empty = {"name": "claim:gpu", "resources": [{"resourceID": "", "health": "Unhealthy"}]}
    (told,) = listener.hear(pod(*odd, empty, entry("Healthy")))
    assert told.health is Health.HEALTHY
    assert listener.counted('sickbay_unparsed_total{reason="Malformed"} 1.0')


def test_repetition_counts_nothing_again(listener: Listener) -> None:
    """An odd entry that stays is counted once."""
    listener.hear(pod(entry("odd")))
    listener.hear(pod(entry("odd"), version="11"))
    assert listener.counted('sickbay_unparsed_total{reason="UnlistedHealth"} 1.0')


def test_several_containers_are_one_voice_the_worst(listener: Listener) -> None:
    """Containers that share a claim have an entry each; the pod says the worst."""
    (told,) = listener.hear(pod(entry("Healthy"), entry("Unhealthy")))
    assert told.health is Health.UNHEALTHY


def test_entry_waits_for_its_claim() -> None:
    """What cannot be resolved yet is looked at again when the claim comes."""
    listener = Listener()
    assert listener.hear(pod(entry("Unhealthy"))) == []
    listener.translator.on_claim(change(None, claim()))
    assert [o.device for o in listener.said] == [GPU_0]


def test_vanished_entry_and_vanished_pod_are_told(listener: Listener) -> None:
    """A pod that says nothing more of a device, and a pod that is gone."""
    first = pod(entry("Unhealthy"))
    listener.hear(first)
    second = pod(version="11")
    listener.hear(second)
    assert listener.silent == [(GPU_0, "uid-train-0")]
    listener.hear(pod(entry("Unhealthy"), version="12"))
    listener.translator.on_pod(change(pod(entry("Unhealthy"), version="13"), None))
    assert listener.silent == [(GPU_0, "uid-train-0")] * 2


def test_undecodable_pod_keeps_its_last_state_as_unknown(listener: Listener) -> None:
    """An object that can no longer be read is in doubt, at the version of the doubt."""
    listener.hear(pod(entry("Healthy")))
    (told,) = listener.hear(replace(pod(entry("Healthy")), version="11", undecodable=True))
    assert (told.health, told.reason, told.resource_version) == (Health.UNKNOWN, Reason.UNDECODABLE, "11")
    assert listener.silent == []


def test_ended_pod_is_marked(listener: Listener) -> None:
    """What a pod says after its end is terminal."""
    (told,) = listener.hear(pod(entry("Unhealthy"), phase="Failed"))
    assert told.terminal


def test_ids_that_cannot_be_told_apart_make_all_suspect() -> None:
    """One bad CDI id among several devices of a request is Unknown for each; all bad is Unhealthy for each."""
    listener = Listener()
    listener.translator.on_claim(change(None, claim("gpu-0", "gpu-1")))

    def cdi(*healths: str) -> dict[str, Any]:
        ids = [{"resourceID": f"vendor/gpu={n}", "health": h} for n, h in enumerate(healths)]
        return {"name": "claim:gpu", "resources": ids}

    one_bad = listener.hear(pod(cdi("Healthy", "Unhealthy")))
    assert {(o.device, o.health, o.reason) for o in one_bad} == {
        (key, Health.UNKNOWN, Reason.AMBIGUOUS) for key in (GPU_0, GPU_1)
    }
    all_bad = listener.hear(pod(cdi("Unhealthy", "Unhealthy"), version="11"))
    assert {o.health for o in all_bad} == {Health.UNHEALTHY}
    all_well = listener.hear(pod(cdi("Healthy", "Healthy"), version="12"))
    assert {o.health for o in all_well} == {Health.HEALTHY}
    # Kubelet drops twins: one Healthy for two devices proves nothing.
    assert listener.hear(pod(cdi("Healthy"), version="13")) == []


def test_plugin_entries_are_counted_only(listener: Listener) -> None:
    """A device plugin's device is no DRA device: it is counted, replicas as one."""
    plugin = {"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-1::3", "health": "Unhealthy"}]}
    assert listener.hear(pod(plugin)) == []
    assert listener.counted('sickbay_plugin_entries_total{health="Unhealthy"} 1.0')


@given(st.permutations(range(4)), st.permutations(range(3)))
def test_order_of_entries_and_resources_is_no_change(entries: list[int], resources: list[int]) -> None:
    """Kubelet's order churn tells the same."""
    listener = Listener()
    names = [f"gpu-{n}" for n in range(3)]
    listener.translator.on_claim(change(None, claim(*names)))
    ids = [{"resourceID": f"{objects.DRIVER}/node-1/{n}", "health": h} for n, h in zip(names, Health, strict=True)]
    groups: list[dict[str, Any]] = [{"name": "claim:gpu", "resources": [ids[n] for n in resources]}]
    groups += [{"name": f"vendor.example/x{n}", "resources": []} for n in range(3)]
    told = listener.hear(pod(*(groups[n] for n in entries)))
    assert {(o.device.device, o.health) for o in told} == {
        ("gpu-0", Health.HEALTHY),
        ("gpu-1", Health.UNKNOWN),
        ("gpu-2", Health.UNHEALTHY),
    }
