"""Prometheus' configuration and the alerts: by the word of promtool, and against the metrics that there are."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from k8s.install import install
from k8s.lab.lab import Lab
from k8s.lab.sickbay_process import SickbayProcess
from k8s.lab.temporal import TemporalOptions
from sickbay.model.policy import Policy
from sickbay.telemetry import metrics
from sickbay.temporal import Temporal
from tests.crash.waiting import until
from tests.deploy import compose
from tests.prometheus import needs_prometheus, running
from tests.test_house import ROOT

FOLDER = ROOT / "deploy" / "prometheus"

PROMTOOL = shutil.which("promtool")

needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="no promtool on the PATH; on Debian: apt-get install prometheus"
)


def read(name: str) -> Any:
    """Read one of the files."""
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def rules() -> dict[str, dict[str, Any]]:
    """Give the alerts by name."""
    (group,) = read("sickbay.rules.yml")["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


@needs_promtool
@pytest.mark.parametrize(
    "arguments", [("check", "config", "prometheus.yml"), ("test", "rules", "sickbay.tests.yml")], ids=" ".join
)
def test_promtool_takes_it(arguments: tuple[str, ...]) -> None:
    """Configuration and rules are right, and each alert fires when it should and only then."""
    assert PROMTOOL is not None
    checked = subprocess.run([PROMTOOL, *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_alerts_ask_for_metrics_that_there_are() -> None:
    """By name, label and value: an alert on something else would be silent for ever."""
    known = {spec.name: spec for spec in metrics.ALL}
    for alert, rule in rules().items():
        for name, wanted in re.findall(r"(sickbay_[a-z_]+)(?:\{([^}]*)\})?", rule["expr"]):
            spec = known[name.removesuffix("_bucket") if name.endswith("_bucket") else name]
            for label, value in re.findall(r'(\w+)="([^"]*)"', wanted):
                assert value in spec.labels[label], alert


def test_alerts_say_what_to_do() -> None:
    """Each has a severity, a summary and a description, and those name pages that exist."""
    for alert, rule in rules().items():
        assert rule["labels"]["severity"] in {"critical", "warning"}, alert
        text = " ".join(rule["annotations"][part] for part in ("summary", "description"))
        for page in re.findall(r"docs/[\w./-]+\.md", text):
            assert (ROOT / page).exists(), alert


def test_every_alert_is_tried() -> None:
    """By the file for promtool."""
    tried = re.findall(r'alertname="(\w+)"', (FOLDER / "sickbay.tests.yml").read_text(encoding="utf-8"))
    assert set(tried) == set(rules())


def test_what_is_scraped_is_there() -> None:
    """Each target is a service of the compose file, or Prometheus itself; ours at the port where it listens."""
    services = compose.services()
    targets = [
        t for job in read("prometheus.yml")["scrape_configs"] for s in job["static_configs"] for t in s["targets"]
    ]
    hosts = {target.partition(":")[0] for target in targets}
    assert hosts <= {*services, "127.0.0.1"}
    listens = services["sickbay"]["environment"]["SICKBAY_LISTEN"].rpartition(":")[2]
    assert f"sickbay:{listens}" in targets
    assert services["temporal"]["environment"]["PROMETHEUS_ENDPOINT"].rpartition(":")[2] == "9090"
    assert "temporal:9090" in targets


@needs_prometheus
@pytest.mark.soak
@pytest.mark.lab
async def test_prometheus_scrapes_sickbay(tmp_path: Path) -> None:
    """By its own configuration, but for the addresses: all metrics arrive, and no alert fires while all is well."""
    async with Lab.start(temporal=TemporalOptions()) as lab:
        await install(lab.gateway, cluster="scraped", namespace_id=await Temporal(lab.temporal.address).namespace_id())
        sickbay = await SickbayProcess.start(lab, policy=Policy())
        await sickbay.acts()
        configuration = (FOLDER / "prometheus.yml").read_text(encoding="utf-8")
        configuration = configuration.replace("sickbay:8471", sickbay.health.removeprefix("http://"))
        configuration = configuration.replace("_interval: 15s", "_interval: 1s")
        (tmp_path / "prometheus.yml").write_text(configuration, encoding="utf-8")
        shutil.copy(FOLDER / "sickbay.rules.yml", tmp_path)
        try:
            async with running(tmp_path / "prometheus.yml") as prometheus:
                async with aiohttp.ClientSession() as session, session.get(f"{sickbay.health}/metrics") as answer:
                    wanted = set(re.findall(r"^(sickbay_\w+)", await answer.text(), re.MULTILINE))
                assert len(wanted) > len(metrics.ALL) / 2

                async def all_there() -> bool:
                    return wanted <= set(await prometheus.asked("label/__name__/values") or ())

                await until("every metric is scraped", all_there, within=60)
                groups = (await prometheus.asked("rules"))["groups"]
                assert {rule["name"]: rule["health"] for g in groups for rule in g["rules"]} == dict.fromkeys(
                    rules(), "ok"
                )
                firing = await prometheus.asked("query", query='ALERTS{alertstate="firing"}')
                assert firing["result"] == []
        finally:
            await sickbay.process.stop()
