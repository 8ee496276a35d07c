"""How a process is told where things are: flags, then the environment, then a YAML file, then defaults.

One field has one name in three spellings: ``--temporal-address``, ``SICKBAY_TEMPORAL_ADDRESS``, ``temporalAddress``.
What Sickbay *does* is not a setting but the policy (`sickbay.model.policy`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from pydantic import AfterValidator, Field, SecretStr, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from sickbay.errors import UsageError
from sickbay.model.base import Duration
from sickbay.model.trace import PLACE
from sickbay.policy.document import Document
from sickbay.policy.problems import from_validation, nearest
from sickbay.telemetry.logging import Format, Level

PREFIX: Final = "SICKBAY_"

CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"
"""Names the YAML file, as ``--config`` does."""


def _endpoint(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) < 65536):  # noqa: PLR2004 - TCP ports
        raise ValueError(f"{text!r} is not an address; write host:port")
    return text


def _cluster_name(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", text):
        raise ValueError(f"{text!r} is not a name for a cluster; use up to 63 of a-z, 0-9, - and .")
    return text


def _url(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#()\[\]]+[^\s()\[\]]*", text):
        raise ValueError(f"{text!r} is not an address; write http://host:port or https://host:port")
    return text


def _trace_url(text: str) -> str:
    if PLACE not in text:
        raise ValueError(f"{text!r} has no {PLACE} in it; write it where the trace's id goes")
    return _url(text)


Url = Annotated[str, AfterValidator(_url)]
TraceUrl = Annotated[str, AfterValidator(_trace_url)]
Endpoint = Annotated[str, AfterValidator(_endpoint)]
ClusterName = Annotated[str, AfterValidator(_cluster_name)]


class Settings(BaseSettings):
    """All settings of all processes; each says its default and why."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix=PREFIX, env_ignore_empty=True, use_attribute_docstrings=True
    )

    kubeconfig: str | None = None
    """Kubeconfig file. Default: what kubectl would use (KUBECONFIG, ~/.kube/config), else the pod's service account."""
    context: str | None = None
    """Context of the kubeconfig. Default: its current one."""
    cluster: ClusterName | None = None
    """Name of the cluster in incident ids and task queues. Default: the name that `sickbay install` wrote into it."""
    policy: Path | None = None
    """Policy file. Default: none, and then Sickbay only observes."""
    temporal_address: Endpoint = "127.0.0.1:7233"
    """Temporal's frontend. Default: where its dev server listens."""
    temporal_namespace: Annotated[str, Field(min_length=1)] = "default"
    """Temporal namespace."""
    temporal_tls: bool = False
    """Speak TLS to Temporal. Default: only if a certificate, an authority or an API key is given."""
    temporal_tls_cert: Path | None = None
    """Client certificate for Temporal, PEM; together with its key."""
    temporal_tls_key: Path | None = None
    """Key of the client certificate, PEM."""
    temporal_tls_ca: Path | None = None
    """Authority that signed Temporal's certificate, PEM. Default: the system's."""
    temporal_api_key: SecretStr | None = None
    """API key for Temporal. No flag: other users of the machine would see it."""
    listen: Endpoint = "127.0.0.1:8471"
    """Where health and metrics are served. Default: this machine only; a pod needs 0.0.0.0:8471. Port 0: any."""
    otlp_endpoint: Url | None = None
    """Where traces go, by OTLP over HTTP: http://host:4318. Default: OTEL_EXPORTER_OTLP_ENDPOINT, else nowhere."""
    trace_url: TraceUrl | None = None
    """Where a trace is shown, with {trace_id} in it, for links in Temporal's UI: http://host:16686/trace/{trace_id}."""
    prometheus_token_file: Path | None = None
    """File of a bearer token that workers send with a business check; read each time. Default: none is sent."""
    log_level: Level = Level.INFO
    """Least severe event that is logged."""
    log_format: Format | None = None
    """Form of the log. Default: console on a terminal, json elsewhere."""
    grace: Duration = timedelta(seconds=20)
    """How long running activities may take to end when the process is asked to stop. Default: less than a pod's 30s."""

    @model_validator(mode="after")
    def _pair(self) -> Settings:
        if (self.temporal_tls_cert is None) != (self.temporal_tls_key is None):
            have, lack = ("cert", "key") if self.temporal_tls_cert else ("key", "cert")
            raise ValueError(f"temporal-tls-{have} is given without temporal-tls-{lack}; give both or neither")
        return self

    @property
    def tls(self) -> bool:
        """Whether Temporal is spoken to by TLS."""
        return bool(self.temporal_tls or self.temporal_tls_cert or self.temporal_tls_ca or self.temporal_api_key)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the interface of pydantic-settings, as the three below
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Leave the layers to `load`, which remembers where each value came from."""
        return (init_settings,)

    @classmethod
    def load(cls, flags: Mapping[str, Any], config: str | None = None) -> Settings:
        """Put the layers together.

        Args:
            flags: values given on the command line, by field; None = not given.
            config: the YAML file; None = none.

        Raises:
            UsageError: with one line for each problem: the name as it was written, where, and the remedy.
        """
        given = {name: value for name, value in flags.items() if value is not None}
        layers = [
            _Layer({name: f"--{name.replace('_', '-')}" for name in given}, given),
            _environment(cls),
            _file(config) if config else _Layer({}, {}),
        ]
        merged: dict[str, Any] = {}
        for layer in reversed(layers):
            merged |= layer.values
        try:
            return cls(**merged)
        except ValidationError as error:
            raise UsageError("\n".join(_lines(error, layers))) from error


class _Layer(NamedTuple):
    """One source of settings.

    Attributes:
        names: by field, how and where it was written there.
        values: by field.
    """

    names: dict[str, str]
    values: dict[str, Any]


def _environment(model: type[Settings]) -> _Layer:
    values = EnvSettingsSource(model)()
    return _Layer({name: f"{PREFIX}{name.upper()}" for name in values}, values)


def _file(file: str) -> _Layer:
    document = Document.read(read_text(file, "--config"), file)
    if not isinstance(document.data, dict):
        raise UsageError(f"{file}: must be a mapping of keys to values")
    fields = {to_camel(name): name for name in Settings.model_fields}
    strangers = [
        f"{file}:{document.line_of((key,))}: {key}: unknown key; {nearest(key, fields)}"
        for key in document.data
        if key not in fields
    ]
    if strangers:
        raise UsageError("\n".join(strangers))
    names = {fields[key]: f"{file}:{document.line_of((key,))}: {key}" for key in document.data}
    return _Layer(names, {fields[key]: value for key, value in document.data.items()})


def _lines(error: ValidationError, layers: list[_Layer]) -> list[str]:
    lines = []
    for problem in from_validation(error, Settings):
        name = next((layer.names[f] for f in problem.path[:1] for layer in layers if f in layer.names), "")
        lines.append(f"{name}: {problem.text}" if name else problem.text)
    return lines


def read_text(file: str, asked_by: str) -> str:
    """Read a file that a person named.

    Args:
        file: its path.
        asked_by: flag or key that named it, for messages.

    Raises:
        UsageError: it cannot be read, or is not UTF-8.
    """
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{asked_by}: cannot read {file}: {error.strerror}; give a file that exists") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{asked_by}: {file} is not a text in UTF-8; is it the right file?") from error


def table() -> str:
    """Write all settings as a Markdown table, for ``docs/configuration.md``."""
    rows = ["| flag | environment | file | default | meaning |", "|---|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        flag = "" if field.annotation == SecretStr | None else f"`--{name.replace('_', '-')}`"
        default = "" if field.default is None else f"`{_shown(field.default)}`"
        meaning = re.sub(r"\s+", " ", field.description or "")
        rows.append(f"| {flag} | `{PREFIX}{name.upper()}` | `{to_camel(name)}` | {default} | {meaning} |")
    return "\n".join(rows) + "\n"


def _shown(value: object) -> str:
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    return str(value).lower() if isinstance(value, bool) else str(value)
