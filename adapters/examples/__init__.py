"""Examples that run from a source checkout; they are not installed."""
