"""Several targets on git: a writer that dies, or is stopped, at any file it renames or removes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perago_conformance.support import refused
from perago_core.answers import NotDone
from perago_core.values import Target
from perago_local.git.store import GitStore
from perago_local.git.tickets import Moves
from tests.support.several.scene import OTHER, Deaths, Scene, every_death


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> Deaths:
    """Let every change of a ref, and every end of a journal, be one at which its writer may die."""
    made = Deaths()
    replace, unlink = vars(Moves)["_replace"], Path.unlink

    def mortal_replace(self: Moves, name: str, content: bytes) -> Any:  # noqa: ANN401  as the real one
        return made(partial(replace, self, name, content))

    def mortal_unlink(self: Path, *, missing_ok: bool = False) -> Any:  # noqa: ANN401  as the real one
        act = partial(unlink, self, missing_ok=missing_ok)
        return made(act) if self.parent.name == "together" and self.suffix != ".lock" else act()

    monkeypatch.setattr(Moves, "_replace", mortal_replace)
    monkeypatch.setattr(Path, "unlink", mortal_unlink)
    return made


def test_a_writer_that_dies_anywhere_leaves_both_targets_or_none(deaths: Deaths, tmp_path: Path) -> None:
    def scene(number: int) -> Scene:
        return Scene(GitStore(tmp_path / str(number), patience=0.2), deaths).begin()

    whole = scene(0)
    with deaths.dying(None):
        whole.see_it_through()
        count = deaths.count
    whole.check_end()
    for number, (at, before) in enumerate(every_death(count), 1):
        one = scene(number)
        assignment = one.poll()
        assert assignment is not None
        with deaths.dying(at, before=before):
            one.attempt(assignment)
        one.check()
        one.give_up(assignment)
        one.see_it_through()
        one.check_end()


def test_branches_of_two_repositories_are_refused_with_what_to_do(tmp_path: Path) -> None:
    store = GitStore(tmp_path)
    assert "use branches of one of them, or a bucket" in refused(store.moves_together((OTHER, Target("lab", "main"))))
    assert not isinstance(store.moves_together((OTHER, Target("lake", "main"))), NotDone)
