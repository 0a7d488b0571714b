"""Several processes over one coordination store: the policy, lease and recovery machines explored call by call.

``conversations`` runs a machine one port call at a time, ``store`` is what the processes share, ``model`` is what may
happen to them, ``search`` looks at every world within the bounds. ``locks``, ``policies`` and ``recoveries`` are the
three kinds of processes, each with its promises; ``scenes`` names the bounds that are explored; ``mutants`` has the
wrong tables.
"""

from __future__ import annotations
