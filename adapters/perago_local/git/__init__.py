"""The store on git: a folder of bare repositories, each an ordinary one that the git command line can read and collect.

Read ``tickets`` first: it says why two writers never both move a branch, also when one of them is stopped for an hour
in the middle. Then ``publish``, which is the only thing that moves a target.
"""

from perago_local.git.store import GitStore

__all__ = ["GitStore"]
