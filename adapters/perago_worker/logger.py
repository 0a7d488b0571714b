"""The log of the worker and of the commands: one logger, called ``perago``."""

from __future__ import annotations

import logging

log = logging.getLogger("perago")
