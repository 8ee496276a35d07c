"""Whether the cluster would not have an object, or the request itself was wrong.

403 is the cluster's word, whoever in it says so: a quota, Pod Security, missing rights, an admission policy. A webhook
chooses its status itself, and a ValidatingAdmissionPolicy without a ``reason`` answers 422 (measured); the API server
names both in its text, and has no other sign for them. Any other 4xx is about the object as we wrote it.
"""

from __future__ import annotations

from typing import Final

from sickbay import errors

_DENIED: Final = ("denied the request", "denied request: ")
"""As a webhook's refusal is told, and a policy's (package ``admission`` of the API server)."""


def by_the_cluster(error: errors.ClusterError) -> bool:
    """Say whether it is a refusal that somebody can mend in the cluster, and that may be another one tomorrow.

    A webhook or a policy that could not be asked is a 5xx, which passes, and says nothing of the object.
    """
    if isinstance(error, errors.Forbidden):
        return True
    return error.status < 500 and any(word in error.message for word in _DENIED)  # noqa: PLR2004 - the class of refusals
