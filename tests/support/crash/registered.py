"""What is known not to hold: the residuals of ``specs/residuals.json``, as far as these tests can meet them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

_RESIDUALS = Path(__file__).parents[3] / "specs" / "residuals.json"
_ENVIRONMENTS = {"stop": "pauses that resume"}


def registered(backing: str, action: str) -> Callable[[str], bool]:
    """Return a judge of sentences: is this broken promise one that the ladder does not give on this backing?

    Only a pause can show one. A killed worker's requests die with it here, because the store is no server.
    """
    environment = _ENVIRONMENTS.get(action)
    known = {
        each["property"]
        for each in json.loads(_RESIDUALS.read_text(encoding="utf-8"))
        if each["backing"] == backing and environment in each["steps"]
    }
    return lambda sentence: sentence.partition(" ")[0] in known
