"""Policy files: strict, and every problem has a place and a remedy."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel

from sickbay.errors import UsageError
from sickbay.model.base import format_duration
from sickbay.model.policy import Mode, Policy
from sickbay.policy.document import InvalidDocument
from sickbay.policy.loading import load_policy

HEAD = "apiVersion: sickbay.dev/v1alpha1\nkind: RemediationPolicy\n"
PROMETHEUS = "prometheus: 'http://p:9090'"


def problems(text: str) -> list[str]:
    """Load a text that must be refused, and give the lines of the refusal."""
    with pytest.raises(InvalidDocument) as refused:
        load_policy(text, "policy.yaml")
    assert isinstance(refused.value, UsageError)
    return str(refused.value).splitlines()


def test_a_file_of_defaults_is_the_default_policy() -> None:
    """What a file does not say has the default."""
    assert load_policy(HEAD, "policy.yaml") == Policy()


def test_values_are_read() -> None:
    """Durations, numbers, lists and nested keys arrive in the model."""
    text = (
        HEAD
        + "mode: enforce\nconfirm: 1m30s\nguard: {share: 0.5, perMinute: 3}\nmatch:\n  drivers: [gpu.example.com]\n"
    )
    policy = load_policy(text, "policy.yaml")
    assert (policy.mode, policy.confirm) == (Mode.ENFORCE, timedelta(seconds=90))
    assert (policy.guard.share, policy.guard.per_minute, policy.match.drivers) == (0.5, 3, ("gpu.example.com",))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("guard: {perMinut: 3}", "policy.yaml:3: guard.perMinut: unknown key; did you mean perMinute?"),
        ("guard: {per_minute: 3}", "policy.yaml:3: guard.per_minute: unknown key; did you mean perMinute?"),
        ("grace: 1m", "policy.yaml:3: grace: unknown key; known here: apiVersion, kind, mode,"),
        ("confirm: -3s", "policy.yaml:3: confirm: '-3s' is not a duration of zero or more; write it like 45s"),
        ("confirm: 30", "policy.yaml:3: confirm: must be a duration with a unit, like 45s, 10m, 1h30m or 7d, not 30"),
        ("confirm: 99999999999d", "policy.yaml:3: confirm: '99999999999d' is longer than ten years"),
        ("mode: enforc", "policy.yaml:3: mode: must be one of observe, shadow, approve, enforce, not 'enforc'"),
        ("mode: off", "policy.yaml:3: mode: must be one of observe, shadow, approve, enforce, not 'off'"),
        ("mode:", "policy.yaml:3: mode: must be one of observe, shadow, approve, enforce, not nothing"),
        ("guard: {floor: 1.5}", "policy.yaml:3: guard.floor: must be a whole number, not 1.5"),
        ("guard: {floor: 010}", "policy.yaml:3: guard.floor: must be a whole number, not '010'"),
        ("guard: {share: 1.5}", "policy.yaml:3: guard.share: must be less than or equal to 1, not 1.5"),
        ("guard: {share: .inf}", "policy.yaml:3: guard.share: must be a number, not '.inf'"),
        ("guard: {floor: 50}", "policy.yaml:3: guard: floor 50 is above ceiling 32; lower floor or raise ceiling"),
        ("probe: {first: 2h}", "policy.yaml:3: probe: first 2h is above longest 1h; lower first or raise longest"),
        (
            "soak: {time: 2h}",
            "policy.yaml:3: soak: time 2h is not below deadline 2h, so that none could pass; lower",
        ),
        ("soak: {deadline: 5m}", "policy.yaml:3: soak: time 10m is not below deadline 5m"),
        (
            "soak: {check: 40s}",
            "policy.yaml:3: soak: check 40s is not below staleness 40s, so that a look could find a",
        ),
        ("staleness: 20s", "policy.yaml:1: soak: check 30s is not below staleness 20s"),
        ("soak: {check: 0s}", "policy.yaml:3: soak.check: 0s would look without a pause; write a time like 30s"),
        ("ramp: {check: 0s}", "policy.yaml:3: ramp.check: 0s would look without a pause; write a time like 30s"),
        ("guard: 3", "policy.yaml:3: guard: must be a mapping of keys to values, not 3"),
        ("migration: {enabled: yes}", "policy.yaml:3: migration.enabled: must be true or false, not 'yes'"),
        ("match: {drivers: gpu}", "policy.yaml:3: match.drivers: must be a list, not 'gpu'"),
        ("match: {drivers: [gpu, 3]}", "policy.yaml:3: match.drivers[1]: must be a text, not 3"),
        ("probe: {identity: {a: 1}}", "policy.yaml:3: probe.identity.a: must be a text, not 1"),
        ("probe: {image: ''}", "policy.yaml:3: probe.image: must be a text that is not empty, not ''"),
        ("business: {min: 1}", "policy.yaml:3: business: min is given without prometheus; name its address, like"),
        ("business: {min: 0}", "policy.yaml:3: business: min is given without prometheus; name its address, like"),
        (f"business: {{{PROMETHEUS}}}", "policy.yaml:3: business: prometheus is given without query; write what"),
        (f"business: {{{PROMETHEUS}, query: up}}", "policy.yaml:3: business: neither min nor max is given; give at"),
        (
            f"business: {{{PROMETHEUS}, query: up, min: 2, max: 1.5}}",
            "policy.yaml:3: business: min 2 is above max 1.5; lower min or raise max",
        ),
        ("business: {max: '1'}", "policy.yaml:3: business.max: must be a number, not '1'"),
        ("business: {prometheus: 'prom:9090'}", "policy.yaml:3: business.prometheus: 'prom:9090' is not an address;"),
        ("business: {prometheus: 'ftp://prom'}", "policy.yaml:3: business.prometheus: 'ftp://prom' is not an address;"),
        ("business: {prometheus: 'http://p:99999'}", "policy.yaml:3: business.prometheus: 'http://p:99999' is not an"),
        ("business: {prometheus: 'http://p/?x=1'}", "policy.yaml:3: business.prometheus: 'http://p/?x=1' is not an"),
        (
            "business: {prometheus: 'http://me:secret@p'}",
            "policy.yaml:3: business.prometheus: holds a user or a password; leave them out, and give workers",
        ),
        ("business: {query: 'up{x=$device}'}", "policy.yaml:3: business.query: $device stands outside of quotes;"),
        ("business: {query: 'up{x=~`$device`}'}", "policy.yaml:3: business.query: $device stands in backticks,"),
        ("business: {query: 'up{x=\"$uuid\"}'}", "policy.yaml:3: business.query: $uuid is not known; known here: $dev"),
        ("business: {url: x}", "policy.yaml:3: business.url: unknown key; known here: prometheus, query, min, max,"),
        ("keep: 1d\nkeep: 2d", "policy.yaml:4: keep: is there twice, first on line 3; keep one"),
        ("1: 2", "policy.yaml:3: the key '1' is not a text; quote it"),
        ("keep: *x", "policy.yaml:3: aliases are not read; write the value out"),
        ("keep: !!python/name:os.system x", "policy.yaml:3: keep: 'x' is not a value that can be used here"),
        ("keep: [1", "policy.yaml:4: while parsing a flow sequence: expected ',' or ']'"),
        ("---\nkeep: 1d", "policy.yaml:3: holds several documents (---); put one in each file"),
    ],
)
def test_a_mistake_names_file_line_key_and_remedy(line: str, expected: str) -> None:
    """One mistake is one line, and says what would be right."""
    (told,) = problems(HEAD + line + "\n")
    assert told.startswith(expected)


def test_a_password_in_an_address_is_not_shown() -> None:
    """Whoever reads the log of a start is not told it."""
    assert "secret" not in "".join(problems(HEAD + "business: {prometheus: 'http://me:secret@p'}\n"))


def test_all_problems_are_told_at_once() -> None:
    """Whoever mends a file mends it once: in the order of the file."""
    told = problems(HEAD + "zzz: 1\nconfirm: -1s\nguard: {floor: x, perMinut: 1}\n")
    assert [line.split(": ")[1] for line in told] == ["zzz", "confirm", "guard.floor", "guard.perMinut"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["policy.yaml: must be a mapping of keys to values, not nothing"]),
        ("[1]", ["policy.yaml:1: must be a mapping of keys to values, not a list"]),
        ("kind: RemediationPolicy\n", ["policy.yaml:1: apiVersion is missing; write apiVersion: sickbay.dev/v1alpha1"]),
        (
            HEAD.replace("alpha1", "alpha9"),
            ["policy.yaml:1: apiVersion: must be sickbay.dev/v1alpha1, not 'sickbay.dev/v1alpha9'"],
        ),
        ("[" * 50_000, ["policy.yaml: is nested too deeply"]),
        ("x" * 2_000_000, ["policy.yaml: is larger than 1,048,576 characters; is it the right file?"]),
    ],
    ids=["empty", "list", "no version", "other version", "deep", "large"],
)
def test_what_is_no_policy_at_all_is_refused(text: str, expected: list[str]) -> None:
    """Whatever a file holds, the answer is a line and never a traceback."""
    assert problems(text) == expected


def test_control_characters_are_refused() -> None:
    """A file that is not a text says so."""
    (told,) = problems("\x00")
    assert told.startswith("policy.yaml: cannot be read as YAML: unacceptable character #x0000")


def keys(model: type[BaseModel], prefix: str = "") -> dict[str, object]:
    """Give all key paths of a model with their defaults."""
    found: dict[str, object] = {}
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        if isinstance(field.default, BaseModel):
            found |= keys(type(field.default), f"{path}.")
        else:
            found[path] = field.get_default(call_default_factory=True)
    return found


def test_the_documentation_has_every_key_in_order_with_its_default() -> None:
    """docs/policy.md has one row for each key, and its example is every default but the mode."""
    text = (Path(__file__).parents[3] / "docs" / "policy.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w.]+)` \|[^|]*\| ([^|]*) \|", text, re.MULTILINE))
    defaults = keys(Policy)
    assert list(rows) == list(defaults)
    for key, value in defaults.items():
        shown = format_duration(value) if isinstance(value, timedelta) else str(value).lower()
        assert not value or rows[key].strip("`").lower() == shown.lower(), key
    example, business = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert load_policy(example, "docs/policy.md") == Policy(mode=Mode.ENFORCE)
    assert all(f"{key.rpartition('.')[2]}:" in example for key in defaults)
    assert load_policy(HEAD + business, "docs/policy.md").business.wanted
