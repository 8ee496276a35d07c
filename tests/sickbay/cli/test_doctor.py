"""How the doctor's findings are printed, and what the command's exit status says."""

from __future__ import annotations

import json

import yaml

from k8s.lab.lab import Lab
from sickbay.cli.checkup.finding import Finding, Severity
from sickbay.cli.doctor import report
from sickbay.cli.look.table import Output
from tests.installation import Installation
from tests.sickbay.cli.commands import sickbay as run

FINDINGS = [
    Finding("Kubernetes", Severity.OK, "v1.37.2 at https://10.0.0.1:6443"),
    Finding("Leader", Severity.ERROR, "nobody leads", "start 'sickbay run'"),
    Finding("Identity", Severity.WARNING, "a\x1b[31m\nb", "ask its vendor"),
]


def test_findings_are_lines_with_their_remedy() -> None:
    """One line each, whatever a cluster's text holds, and a sum."""
    assert report(FINDINGS, Output.TABLE) == [
        "\x1b[32mok     \x1b[0m   Kubernetes   v1.37.2 at https://10.0.0.1:6443",
        "\x1b[31merror  \x1b[0m   Leader       nobody leads",
        "                       remedy: start 'sickbay run'",
        "\x1b[33mwarning\x1b[0m   Identity     a [31m b",
        "                       remedy: ask its vendor",
        "1 error, 1 warning",
    ]
    assert report(FINDINGS[:1], Output.TABLE)[-1] == "0 errors, 0 warnings"


def test_findings_are_documents_too() -> None:
    """JSON and YAML hold the same."""
    (as_json,), (as_yaml,) = report(FINDINGS, Output.JSON), report(FINDINGS, Output.YAML)
    assert json.loads(as_json) == yaml.safe_load(as_yaml)
    assert json.loads(as_json)["findings"][1] == {
        "check": "Leader",
        "severity": "error",
        "what": "nobody leads",
        "remedy": "start 'sickbay run'",
    }


async def test_an_error_is_status_1(sickbay: Installation, lab: Lab) -> None:
    """Nothing runs in this lab, so that it is not well; what is said is on stdout, without colours in a pipe."""
    shown = await run("doctor", "--kubeconfig", str(lab.kubeconfig), "--temporal-address", lab.temporal.address)
    assert shown.status == 1, shown.error
    assert "\x1b" not in shown.out
    assert "AdmissionPolicies   installed, as this version has them" in shown.out
    assert " is not temporal-1, which was installed" in shown.out
