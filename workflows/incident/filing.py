"""Under what an incident is found in the list of workflows: its search attributes, written once per phase."""

from __future__ import annotations

from typing import Any, Final

from temporalio.common import SearchAttributeKey, SearchAttributeUpdate, TypedSearchAttributes

from sickbay.model.incident import IncidentState
from sickbay.model.record import Phase
from sickbay.model.searching import LONGEST, SearchAttribute

KEYS: Final = {name: SearchAttributeKey.for_keyword(name) for name in SearchAttribute}


def updates(
    state: IncidentState, filed: TypedSearchAttributes, *, outcome: Phase | None = None
) -> list[SearchAttributeUpdate[Any]]:
    """Say what is to be written now, if anything; an attribute that the namespace does not know fails the whole task.

    Before the fence nothing is written, because nothing may be in its way. An incident that is not admitted waits for
    none, and is found at once.

    Args:
        state: of the incident.
        filed: what was written last; it outlives continue-as-new.
        outcome: at its end.
    """
    if outcome is None:
        if (state.admitted and state.fenced_at is None) or state.phase.final:  # the last phase comes with the outcome
            return []
        if filed.get(KEYS[SearchAttribute.PHASE]) == state.phase:
            return []
    values = _values(state, outcome)
    known = [KEYS[name] for name in SearchAttribute if name in state.searchable and name in values]
    return [key.value_set(values[SearchAttribute(key.name)]) for key in known if _new(filed, key, values)]


def _new(filed: TypedSearchAttributes, key: SearchAttributeKey[str], values: dict[SearchAttribute, str]) -> bool:
    return filed.get(key) != values[SearchAttribute(key.name)]


def _values(state: IncidentState, outcome: Phase | None) -> dict[SearchAttribute, str]:
    device = state.target.device
    values: dict[SearchAttribute, str] = {
        SearchAttribute.PHASE: outcome or state.phase,
        SearchAttribute.DEVICE: f"{device.driver}/{device.pool}/{device.device}",
        SearchAttribute.NODE: state.node,
        SearchAttribute.REASON: state.reason,
        SearchAttribute.CLUSTER: device.cluster,
    }
    if outcome is not None:
        values[SearchAttribute.OUTCOME] = outcome
    return {name: str(value)[:LONGEST] for name, value in values.items() if value}
