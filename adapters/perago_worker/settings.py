"""One typed settings object, frozen. ``loading`` says where its values come from.

A misspelt name is an error with the names that exist, not a default that nobody asked for. Secrets are ``SecretStr``:
printing the settings shows that there is one, never which.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from perago_core.budget import PublishBudget


def _split(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


#: A list in a file, or words with commas between them in an environment variable.
Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StoreSettings(_Section):
    """Where the data is."""

    kind: Literal["local", "lakefs"] = "local"
    path: Path = Path(".perago/store")
    url: str = ""
    access_key: str = ""
    secret_key: SecretStr = SecretStr("")


class OrchestratorSettings(_Section):
    """Who hands out attempts."""

    kind: Literal["local", "conductor"] = "local"
    path: Path = Path(".perago/orchestrator.db")
    url: str = ""
    key: str = ""
    secret: SecretStr = SecretStr("")


class CoordinationSettings(_Section):
    """Where workers agree: policy, leases, intents and audit."""

    kind: Literal["local", "etcd", "none"] = "local"
    path: Path = Path(".perago/coordination.db")
    endpoints: Words = ()
    user: str = ""
    password: SecretStr = SecretStr("")
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    prefix: str = ""


class FenceSettings(_Section):
    """How publications are fenced. ``auto`` probes the store and agrees with the other workers."""

    policy: Literal["auto", "enable", "disable", "soft"] = "auto"
    on_indeterminate: Literal["fallback", "fail"] = "fail"


class BudgetSettings(_Section):
    """Seconds each part of a publication may take; see ``perago_core.PublishBudget``."""

    publish_timeout: float = 5.0
    publish_p99: float = 1.0
    margin: float = 1.0
    completion_reserve: float = 10.0
    heartbeat_interval: float = 5.0
    shutdown_grace: float = 10.0
    lease_ttl: float = 10.0
    lease_margin: float = 2.0
    takeover_wait: float = 30.0

    @model_validator(mode="after")
    def _consistent(self) -> BudgetSettings:
        self.budget()
        return self

    def budget(self) -> PublishBudget:
        """Give the core's value, which refuses numbers that contradict each other."""
        return PublishBudget(**self.model_dump())


class WorkerSettings(_Section):
    """How a worker works. ``drain_limit``: seconds a stopping worker waits for its bodies."""

    capacity: int = Field(default=4, ge=1, le=256)
    poll_interval: float = Field(default=0.2, gt=0)
    drain_limit: float = Field(default=60.0, ge=0)
    root: Path = Path(".perago/work")
    cache: Path = Path(".perago/cache")
    cache_limit_mb: int = Field(default=10_000, ge=1)
    parallel_transfers: int = Field(default=8, ge=1, le=128)
    trace: Path = Path(".perago/trace")


class StepSettings(_Section):
    """One step of a pipeline: which task, under which name, with which parameters."""

    task: str
    name: str = ""
    params: dict[str, Any] = Field(default_factory=dict)


class PipelineSettings(_Section):
    """Steps in order: the output ref of each is the input of the next."""

    repository: str
    branch: str = "main"
    steps: tuple[StepSettings, ...] = Field(min_length=1)


class Settings(BaseSettings):
    """Everything a worker or a command needs to know."""

    model_config = SettingsConfigDict(env_prefix="PERAGO_", env_nested_delimiter="__", extra="forbid", frozen=True)

    tasks: Words = ()
    store: StoreSettings = StoreSettings()
    orchestrator: OrchestratorSettings = OrchestratorSettings()
    coordination: CoordinationSettings = CoordinationSettings()
    fence: FenceSettings = FenceSettings()
    budget: BudgetSettings = BudgetSettings()
    worker: WorkerSettings = WorkerSettings()
    pipelines: dict[str, PipelineSettings] = Field(default_factory=dict)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is passed in counts: ``loading.load`` has already put the sources in order."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)
