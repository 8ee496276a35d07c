"""By what incidents are found in Temporal's list of workflows: its custom search attributes, all of type Keyword.

A namespace on an SQL database has room for ten of that type, for everybody who uses it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

LONGEST: Final = 255
"""Characters of a value: the width of the column in a PostgreSQL or MySQL visibility store."""


class SearchAttribute(StrEnum):
    """Each by its name in the namespace; the most useful first, for namespaces that have no room for all."""

    PHASE = "SickbayPhase"
    """As in the record; at the end the same as the outcome."""
    DEVICE = "SickbayDevice"
    """``driver/pool/device``, as a pod's status names it."""
    NODE = "SickbayNode"
    OUTCOME = "SickbayOutcome"
    """Only of incidents that have ended."""
    REASON = "SickbayReason"
    """Why the device is in doubt: a closed set of words."""
    CLUSTER = "SickbayCluster"
