"""Settings: flags, then environment, then file, then defaults; a mistake names where it stands."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sickbay.errors import UsageError
from sickbay.settings import Settings, table
from sickbay.telemetry.logging import Level


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is set where the tests run is not what is tested."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"SICKBAY_{name.upper()}", raising=False)


def config(directory: Path, text: str) -> str:
    """Write a settings file."""
    file = directory / "sickbay.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def refused(flags: dict[str, Any], file: str | None = None) -> list[str]:
    """Load settings that must be refused, and give the lines of the refusal."""
    with pytest.raises(UsageError) as error:
        Settings.load(flags, file)
    return str(error.value).splitlines()


def test_nothing_given_is_this_machine() -> None:
    """Without any layer, Temporal's dev server is meant, and nothing is served to other machines."""
    settings = Settings.load({})
    assert settings.temporal_address == "127.0.0.1:7233"
    assert settings.listen.startswith("127.0.0.1:")
    assert not settings.tls


def test_the_nearer_layer_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag beats the environment, the environment the file, the file the default."""
    file = config(tmp_path, "cluster: file\ncontext: file\nlogLevel: debug\ngrace: 3s\n")
    monkeypatch.setenv("SICKBAY_CLUSTER", "environment")
    monkeypatch.setenv("SICKBAY_CONTEXT", "environment")
    settings = Settings.load({"cluster": "flag", "context": None}, file)
    assert (settings.cluster, settings.context) == ("flag", "environment")
    assert (settings.log_level, settings.grace) == (Level.DEBUG, timedelta(seconds=3))
    assert settings.temporal_namespace == "default"


def test_an_empty_variable_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Manifests set variables to nothing; that is no value."""
    monkeypatch.setenv("SICKBAY_CLUSTER", "")
    assert Settings.load({}).cluster is None


def test_a_mistake_names_the_layer_it_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is told as it was written, with its place, and every mistake at once."""
    monkeypatch.setenv("SICKBAY_LOG_LEVEL", "loud")
    file = config(tmp_path, "cluster: a\ngrace: -3s\n")
    assert sorted(refused({"listen": "9090"}, file)) == sorted(
        [
            "--listen: '9090' is not an address; write host:port",
            "SICKBAY_LOG_LEVEL: must be one of debug, info, warning, error, not 'loud'",
            f"{file}:2: grace: '-3s' is not a duration of zero or more; write it like 45s, 10m, 1h30m or 7d",
        ]
    )


def test_an_unknown_key_of_the_file_is_refused(tmp_path: Path) -> None:
    """A slip of the hand is not ignored."""
    file = config(tmp_path, "cluster: a\ntemporalAdress: b:1\n")
    assert refused({}, file) == [f"{file}:2: temporalAdress: unknown key; did you mean temporalAddress?"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"cluster": "A b"}, "--cluster: 'A b' is not a name for a cluster; use up to 63 of a-z, 0-9, - and ."),
        ({"temporal_address": "nowhere"}, "--temporal-address: 'nowhere' is not an address; write host:port"),
        ({"listen": "127.0.0.1:99999"}, "--listen: '127.0.0.1:99999' is not an address; write host:port"),
        (
            {"otlp_endpoint": "collector:4318"},
            "--otlp-endpoint: 'collector:4318' is not an address; write http://host:port or https://host:port",
        ),
        (
            {"trace_url": "http://jaeger/trace/"},
            "--trace-url: 'http://jaeger/trace/' has no {trace_id} in it; write it where the trace's id goes",
        ),
        (
            {"trace_url": "{trace_id}"},
            "--trace-url: '{trace_id}' is not an address; write http://host:port or https://host:port",
        ),
        ({"temporal_tls_key": "k"}, "temporal-tls-key is given without temporal-tls-cert; give both or neither"),
    ],
)
def test_a_wrong_flag_says_what_would_be_right(flags: dict[str, Any], expected: str) -> None:
    """Every refusal has a remedy."""
    assert refused(flags) == [expected]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A missing file and one that is no text are told apart."""
    missing = str(tmp_path / "none.yaml")
    assert refused({}, missing) == [
        f"--config: cannot read {missing}: No such file or directory; give a file that exists"
    ]
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    assert refused({}, str(binary)) == [f"--config: {binary} is not a text in UTF-8; is it the right file?"]


def test_a_key_or_certificate_means_tls() -> None:
    """Whoever gives a credential for Temporal does not have to say that it is to be protected."""
    assert Settings.load({"temporal_tls_ca": "ca.pem"}).tls
    assert Settings(temporal_api_key="secret").tls
    assert "secret" not in repr(Settings(temporal_api_key="secret"))


def test_the_documentation_has_every_setting() -> None:
    """docs/configuration.md holds the table that is made from the settings; `make docs` writes it."""
    text = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert table() in text
