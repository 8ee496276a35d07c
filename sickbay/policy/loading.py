"""From the text of a policy file to a `Policy`. Reading the file is the caller's."""

from __future__ import annotations

from sickbay.model.policy import Policy
from sickbay.policy.document import Document


def load_policy(text: str, file: str) -> Policy:
    """Make a policy of a file's text.

    Args:
        text: YAML, one document.
        file: its name, for messages.

    Raises:
        InvalidDocument: with one line for each problem, naming file, line, key path and remedy.
    """
    return Document.read(text, file).validate(Policy, required=("apiVersion", "kind"))
