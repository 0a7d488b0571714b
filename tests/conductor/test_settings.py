"""How a project says that its orchestrator is Conductor, with the names that Conductor's users already have."""

from __future__ import annotations

from pathlib import Path

import pytest

from perago_conductor import ConductorOrchestrator
from perago_worker.config.load import load
from perago_worker.stack import StackError, open_stack
from tests.conductor.attempts import FIRST_REF, MAIN, polled
from tests.support.conductor.operating import Operator


def test_conductors_own_names_are_enough_and_the_secret_is_never_shown(operator: Operator, tmp_path: Path) -> None:
    (tmp_path / "perago.toml").write_text('[orchestrator]\nkind = "conductor"\n', encoding="utf-8")
    environment = {
        "CONDUCTOR_SERVER_URL": operator.url,
        "CONDUCTOR_AUTH_KEY": "a-key",
        "CONDUCTOR_AUTH_SECRET": "a-secret",
        "PERAGO_ORCHESTRATOR__DOMAIN": operator.domain,
    }
    settings = load(tmp_path, {}, environment)
    assert "a-secret" not in repr(settings)
    orchestrator = open_stack(settings).orchestrator
    assert isinstance(orchestrator, ConductorOrchestrator)
    operator.start(("clean",), MAIN, FIRST_REF)
    # A server without users has nobody to give a token: key and secret are then not needed, and do no harm.
    assert polled(orchestrator).snapshot.workflow_id in operator.started
    orchestrator.close()


def test_an_address_with_a_password_in_it_is_refused_without_telling_it() -> None:
    """Addresses are part of every reason; etcd's are refused alike."""
    with pytest.raises(ValueError, match="'conductor/api'") as caught:
        ConductorOrchestrator("https://me:hunter2@conductor/api")
    assert "hunter2" not in str(caught.value)


def test_a_missing_address_is_told_with_the_name_to_set(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="CONDUCTOR_SERVER_URL"):
        open_stack(load(tmp_path, {"orchestrator": {"kind": "conductor"}}, {}))
