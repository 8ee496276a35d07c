"""What the whole installation shares: whose cluster it is, whether it is paused, and what no list gives back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from k8s.configmaps import ConfigMap, Content
from k8s.gateway import Gateway

CONTROL: Final = "sickbay-control"
MEMORY: Final = "sickbay-memory"


@dataclass(frozen=True)
class Control:
    """Content of ConfigMap ``sickbay-control``.

    Attributes:
        cluster: name of this cluster in every device key; empty before the installation.
        namespace_id: id of the Temporal namespace whose incidents the records name. A new database has a new one.
        paused: the leader opens, admits and fences nothing and nobody is evicted; incidents go on otherwise.
        who: paused it.
        why: for people.
        until: end of the pause; None = until somebody resumes.
    """

    cluster: str = ""
    namespace_id: str = ""
    paused: bool = False
    who: str = ""
    why: str = ""
    until: datetime | None = None

    def paused_at(self, now: datetime) -> bool:
        """Say whether the pause holds at this moment."""
        return self.paused and (self.until is None or now < self.until)


class ControlMap:
    """ConfigMap ``sickbay-control``: read it live before each destructive step."""

    def __init__(self, gateway: Gateway) -> None:
        self._map = ConfigMap(gateway, CONTROL)

    async def read(self) -> Control:
        """Read it. People edit this by hand: whatever is not a clear "no" reads as paused, an odd end as no end.

        Raises:
            UsageError: Sickbay is not installed.
        """
        return _control((await self._map.read()).data)

    async def pause(self, *, who: str, why: str, until: datetime | None = None) -> None:
        """Pause the installation.

        Raises:
            Conflict: somebody wrote at the same moment: look again.
            UsageError: Sickbay is not installed.
        """
        end = until.isoformat() if until else None
        await self._map.write(await self._map.read(), {"paused": "true", "who": who, "why": why, "until": end})

    async def resume(self) -> None:
        """End the pause. Raises as `pause`."""
        await self._map.write(await self._map.read(), {"paused": None, "who": None, "why": None, "until": None})

    async def adopt(self, namespace_id: str) -> None:
        """Write the Temporal namespace that holds the incidents from now on. Raises as `pause`."""
        await self._map.write(await self._map.read(), {"namespaceID": namespace_id})

    async def create(self, *, cluster: str, namespace_id: str) -> None:
        """Create it.

        Raises:
            AlreadyExists: it is there.
        """
        await self._map.create({"cluster": cluster, "namespaceID": namespace_id})


@dataclass(frozen=True)
class Memory:
    """What only we remember. Lost, it costs little: a device that was known counts as never known.

    Attributes:
        known: digests of the devices that have been seen Healthy or Unhealthy. Some 50,000 fit a ConfigMap.
        versions: last resourceVersion seen, by plural of the resource type.
    """

    known: frozenset[str] = frozenset()
    versions: Mapping[str, str] = field(default_factory=dict)


class MemoryMap:
    """ConfigMap ``sickbay-memory``; of one process at a time, the leader."""

    def __init__(self, gateway: Gateway) -> None:
        self._map = ConfigMap(gateway, MEMORY)
        self._last: Content | None = None

    async def load(self) -> Memory:
        """Read it; what cannot be read is forgotten.

        Raises:
            UsageError: Sickbay is not installed.
        """
        self._last = await self._map.read()
        try:
            versions = json.loads(self._last.data.get("versions", "{}"))
        except ValueError:
            versions = {}
        known = frozenset(self._last.data.get("known", "").split())
        return Memory(known, versions if isinstance(versions, dict) else {})

    async def store(self, memory: Memory) -> None:
        """Write it, over what this process loaded or stored last; nothing is sent if nothing differs.

        Raises:
            Conflict: another process has written: `load` again, we may no longer lead.
            UsageError: Sickbay is not installed.
        """
        before = self._last or await self._map.read()
        content = {
            "known": "\n".join(sorted(memory.known)),
            "versions": json.dumps(dict(memory.versions), sort_keys=True),
        }
        self._last = None  # whatever happens to the write: what is there then is read again
        self._last = await self._map.write(before, content)


def _control(data: Mapping[str, str]) -> Control:
    return Control(
        cluster=data.get("cluster", ""),
        namespace_id=data.get("namespaceID", ""),
        paused=data.get("paused", "").strip().lower() not in {"", "false", "no"},
        who=data.get("who", ""),
        why=data.get("why", ""),
        until=_time(data.get("until", "")),
    )


def _time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
