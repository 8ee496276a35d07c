"""What several commands share: options made from the settings, and reading the policy file."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, TypeVar, get_args

import click
import structlog

from sickbay.model.policy import Policy
from sickbay.policy.loading import load_policy
from sickbay.settings import CONFIG_VARIABLE, Settings, read_text
from sickbay.telemetry import logging

log = structlog.get_logger(__name__)

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

CLUSTER: Final = ("kubeconfig", "context", "cluster")
TEMPORAL: Final = (
    "temporal_address",
    "temporal_namespace",
    "temporal_tls",
    "temporal_tls_cert",
    "temporal_tls_key",
    "temporal_tls_ca",
)
LOG: Final = ("log_level", "log_format")
PROCESS: Final = (*CLUSTER, *TEMPORAL, "listen", "otlp_endpoint", "trace_url", "grace", *LOG)
"""Settings of every long-running process."""


def settings_options(*names: str) -> Callable[[CommandT], CommandT]:
    """Give a command a flag for each of these settings, and ``--config``; it passes them to `settings_from`."""

    def decorate(command: CommandT) -> CommandT:
        for name in reversed(names):
            command = _option(name)(command)
        return click.option(
            "--config", envvar=CONFIG_VARIABLE, metavar="FILE", help="Settings in YAML, below flags and environment."
        )(command)

    return decorate


def settings_from(flags: dict[str, Any]) -> Settings:
    """Read all layers of settings, and set up logging by them.

    Args:
        flags: what click gave for `settings_options`.

    Raises:
        UsageError: a setting is wrong.
    """
    config = flags.pop("config")
    settings = Settings.load(flags, config)
    logging.configure(settings.log_level, settings.log_format)
    return settings


def read_policy(settings: Settings) -> Policy:
    """Read the policy file, and say in one line what is in force.

    Raises:
        UsageError: the file cannot be read, or has problems.
    """
    if settings.policy is None:
        log.warning("policy_not_given", mode="observe", consequence="nothing is acted on", remedy="--policy FILE")
        return Policy()
    file = str(settings.policy)
    policy = load_policy(read_text(file, "--policy"), file)
    log.info("policy_read", file=file, mode=str(policy.mode), digest=policy.digest)
    return policy


def _option(name: str) -> Callable[[CommandT], CommandT]:
    field = Settings.model_fields[name]
    kinds = [field.annotation, *get_args(field.annotation)]
    flag = f"--{name.replace('_', '-')}"
    if bool in kinds:
        return click.option(f"{flag}/--no-{flag[2:]}", name, default=None, help=field.description)
    choices = next((k for k in kinds if isinstance(k, type) and issubclass(k, StrEnum)), None)
    metavar = f"[{'|'.join(choices)}]" if choices else "VALUE"
    return click.option(flag, name, default=None, metavar=metavar, help=field.description)
