"""The branch a command is about."""

from __future__ import annotations

from perago_core.values import Target
from perago_worker.cli.console import CommandError, Project
from perago_worker.starting import targets_of


def target_of(project: Project, branch: str) -> Target:
    """Read REPOSITORY/BRANCH, or take the only target the project has."""
    if branch:
        repository, sign, name = branch.partition("/")
        if not sign or not repository or not name:
            raise CommandError(f"expected REPOSITORY/BRANCH, e.g. lake/main; found {branch!r}")
        return Target(repository, name)
    targets = targets_of(project.settings)
    if len(targets) != 1:
        known = ", ".join(map(str, targets)) or "none"
        raise CommandError(f"name the branch as REPOSITORY/BRANCH; this project's pipelines publish to: {known}")
    return targets[0]
