"""Imported where guards come from: they do not wait until what a body has started is gone, however busy the machine."""

from perago_worker.bodies import guard

guard._PATIENCE = -1.0  # pyright: ignore[reportPrivateUsage]
