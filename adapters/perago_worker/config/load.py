"""Where settings come from: command line over environment over ``.env`` over ``perago.toml``.

Names that users of Conductor and lakeFS already have are honoured, below our own name from the same place. Relative
paths are relative to the folder of ``perago.toml``, so that a command means the same wherever it is typed.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, get_origin

from dotenv import dotenv_values
from pydantic import BaseModel, ValidationError

from perago_worker.api.errors import UserError
from perago_worker.config.settings import Settings, StoreSettings, TelemetrySettings, WorkerSettings

FILE = "perago.toml"
_PREFIX, _DELIMITER = "perago_", "__"
DOTENV = ".env"

#: What other tools call it, and what it is here. A name without a meaning here is not listed.
FAMILIAR: Mapping[str, tuple[str, str]] = {
    "CONDUCTOR_SERVER_URL": ("orchestrator", "url"),
    "CONDUCTOR_AUTH_KEY": ("orchestrator", "key"),
    "CONDUCTOR_AUTH_SECRET": ("orchestrator", "secret"),
    "LAKECTL_SERVER_ENDPOINT_URL": ("store", "url"),
    "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": ("store", "access_key"),
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": ("store", "secret_key"),
    "ETCDCTL_ENDPOINTS": ("coordination", "endpoints"),
    "ETCDCTL_CACERT": ("coordination", "ca"),
    "ETCDCTL_CERT": ("coordination", "certificate"),
    "ETCDCTL_KEY": ("coordination", "key"),
    "SPARK_REMOTE": ("spark", "remote"),
}


class SettingsError(UserError):
    """The configuration cannot be used. One line for each mistake: what was found, and what to change."""


def load(
    project: Path,
    overrides: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Read the settings of a project folder; ``overrides`` is what the command line said."""
    environment = os.environ if environment is None else environment
    dotenv = {name: value for name, value in dotenv_values(project / DOTENV).items() if value is not None}
    merged: dict[str, Any] = {}
    for layer in (_file(project / FILE), _named(dotenv), _named(environment), dict(overrides or {})):
        merged = _over(merged, layer)
    try:
        settings = Settings(**merged)
    except ValidationError as error:
        raise SettingsError(_explain(error)) from None
    return _rooted(settings, project)


def _file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path.name} cannot be read: {error}. Make it a readable UTF-8 file.") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path.name} is not valid TOML: {error}. Mend that line.") from None


def _named(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return what one set of environment variables says, our own names over familiar ones."""
    familiar: dict[str, Any] = {}
    for name, (section, key) in FAMILIAR.items():
        if variables.get(name):
            familiar.setdefault(section, {})[key] = variables[name]
    ours: dict[str, Any] = {}
    # The shortest first: PERAGO_STORE may hold the whole section as JSON, PERAGO_STORE__PATH one key over it.
    for name in sorted(variables, key=len):
        path = name.lower().removeprefix(_PREFIX).split(_DELIMITER)
        if not name.lower().startswith(_PREFIX):
            continue
        if path[0] not in Settings.model_fields and len(path) > 1:
            # Without the delimiter it may be somebody else's: only ours names a key of a section.
            sections = ", ".join(sorted(Settings.model_fields))
            raise SettingsError(f"{name}: there is no section {path[0]!r}; there are: {sections}. Correct the name.")
        if path[0] in Settings.model_fields:
            value: Any = _decoded(name, path, variables[name])
            for key in reversed(path):
                value = {key: value}
            ours = _over(ours, value)
    return _over(familiar, ours)


def _decoded(name: str, path: Sequence[str], text: str) -> object:
    """Read a variable: JSON where a section or a table is set, text where a single value is."""
    annotation: Any = Settings
    for key in path:
        # Below a table anything may stand, and what its keys hold is the table's own affair.
        field = getattr(annotation, "model_fields", {}).get(key)
        annotation = None if field is None else field.annotation
    if get_origin(annotation) is not dict and not hasattr(annotation, "model_fields"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise SettingsError(f"{name} must hold a JSON object: {error}") from None


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        beneath = merged.get(key)
        merged[key] = _over(beneath, value) if _is_table(beneath) and _is_table(value) else value
    return merged


def _is_table(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _rooted(settings: Settings, project: Path) -> Settings:
    """Make every path absolute."""

    def rooted(section: BaseModel) -> BaseModel:
        paths: dict[str, object] = {name: project / value for name, value in section if isinstance(value, Path)}
        if isinstance(section, WorkerSettings):
            paths["hidden"] = tuple(str(project / each) for each in section.hidden)
        if isinstance(section, TelemetrySettings) and section.openlineage.startswith("file:"):
            paths["openlineage"] = f"file:{project / section.openlineage.removeprefix('file:')}"
        moved = section.model_copy(update=paths)
        return moved.within(project) if isinstance(moved, StoreSettings) else moved

    sections = {name: rooted(value) for name, value in settings if isinstance(value, BaseModel)}
    return settings.model_copy(update=sections)


def _explain(error: ValidationError) -> str:
    lines: list[str] = []
    for each in error.errors(include_input=False, include_url=False):
        place = ".".join(map(str, each["loc"])) or "settings"
        if each["type"] == "extra_forbidden":
            lines.append(f"{place}: there is no such setting; {_siblings(each['loc'])}")
        else:
            lines.append(f"{place}: {each['msg'].removeprefix('Value error, ')}")
    return "\n".join(lines)


def _siblings(place: tuple[int | str, ...]) -> str:
    model: Any = Settings
    for part in place[:-1]:
        field = getattr(model, "model_fields", {}).get(part)
        model = None if field is None else field.annotation
    names = getattr(model, "model_fields", None)
    return f"known here: {', '.join(names)}" if names else "remove it"
