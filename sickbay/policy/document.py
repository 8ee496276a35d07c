"""A YAML file that a person wrote, read strictly: no key is lost in silence, and every problem has a place.

YAML 1.2's core rules for plain scalars: ``off`` is a text and ``010`` is no number, whatever YAML 1.1 made of them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from sickbay.errors import UsageError
from sickbay.policy.problems import Path, Problem, from_validation

ModelT = TypeVar("ModelT", bound=BaseModel)

LARGEST: Final = 1 << 20
"""Characters of a file beyond which it is not what we were meant to be given."""


class InvalidDocument(UsageError):
    """A file has problems; its text has one line for each, with place and remedy."""

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{file}{problem}" for problem in self.problems))


@dataclass(frozen=True)
class Document:
    """The one document of a file.

    Attributes:
        file: its name, for messages.
        data: mappings, lists, texts, numbers, booleans and None: what JSON can say.
        lines: line of each key path, from 1.
    """

    file: str
    data: Any
    lines: dict[Path, int] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str, file: str) -> Document:
        """Parse a text.

        Raises:
            InvalidDocument: not YAML, several documents, an alias, or a key that is repeated or is not a text.
        """
        if len(text) > LARGEST:
            raise InvalidDocument(file, [Problem((), f"is larger than {LARGEST:,} characters; is it the right file?")])
        try:
            loader = _Loader(text)
            root = loader.get_single_node()
            reading = _Reading(loader)
            data = None if root is None else reading.value(root, ())
        except yaml.MarkedYAMLError as error:
            raise InvalidDocument(file, [_syntax(error)]) from error
        except yaml.YAMLError as error:
            raise InvalidDocument(file, [Problem((), f"cannot be read as YAML: {_flat(error)}")]) from error
        except RecursionError as error:
            raise InvalidDocument(file, [Problem((), "is nested too deeply")]) from error
        if reading.problems:
            raise InvalidDocument(file, reading.problems)
        return cls(file, data, reading.lines)

    def validate(self, model: type[ModelT], required: Iterable[str] = ()) -> ModelT:
        """Make a model of it, strictly: types are not converted, and keys have their one spelling.

        Args:
            model: what to make.
            required: keys that a file must have although the model has a default.

        Raises:
            InvalidDocument: with every problem, in the order of the file.
        """
        problems = []
        try:
            result = model.model_validate_json(json.dumps(self.data), strict=True, by_alias=True, by_name=False)
        except ValidationError as error:
            problems = from_validation(error, model)
        if isinstance(self.data, dict):
            for key in required:
                if key not in self.data:
                    default = next(f.default for f in model.model_fields.values() if f.alias == key)
                    problems.append(Problem((), f"{key} is missing; write {key}: {default}"))
        if problems:
            placed = [problem.at(self.line_of(problem.path)) for problem in problems]
            raise InvalidDocument(self.file, sorted(placed, key=lambda problem: problem.line))
        return result

    def line_of(self, path: Path) -> int:
        """Line of a key, or of the nearest one around it that stands in the file; 0 if none does."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)


class _Loader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2's plain scalars, and without aliases (small files do not need them, bombs do)."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own interface

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call] # bare in PyYAML's stubs
            raise yaml.composer.ComposerError(None, None, "aliases are not read; write the value out", mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


for _tag, _pattern, _first in (
    ("null", r"~|null|", ["~", "n", ""]),
    ("bool", r"true|false", ["t", "f"]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", [*"-+0123456789"]),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", [*"-+.0123456789"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), _first)


class _Reading:
    """One walk over the nodes of a document."""

    def __init__(self, loader: _Loader) -> None:
        self.lines: dict[Path, int] = {}
        self.problems: list[Problem] = []
        self._loader = loader

    def value(self, node: yaml.Node, path: Path) -> Any:
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        try:
            value = self._loader.construct_object(node)
        except (yaml.YAMLError, ValueError):  # a foreign tag; a number of thousands of digits
            value = math.nan
        if not isinstance(value, str | int | float | None) or (isinstance(value, float) and not math.isfinite(value)):
            self._problem(node, path, f"{str(node.value)[:40]!r} is not a value that can be used here")
        return value

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in node.value:
            name = key.value
            if key.tag != "tag:yaml.org,2002:str":
                self._problem(key, path, f"the key {name if isinstance(name, str) else '?'!r} is not a text; quote it")
            elif name in result:
                first = self.lines[*path, name]
                self._problem(key, (*path, name), f"is there twice, first on line {first}; keep one")
            else:
                self.lines[*path, name] = key.start_mark.line + 1
                result[name] = self.value(value, (*path, name))
        return result

    def _problem(self, node: yaml.Node, path: Path, text: str) -> None:
        self.problems.append(Problem(path, text, node.start_mark.line + 1))


def _syntax(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    text = ": ".join(part for part in (error.context, error.problem) if part)
    if "single document" in text:
        text = "holds several documents (---); put one in each file"
    return Problem((), " ".join(text.split()), mark.line + 1 if mark else 0)


def _flat(error: BaseException) -> str:
    return " ".join(str(error).split())
