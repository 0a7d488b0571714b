"""Structured Streaming inside a task: offsets, state and every output of a query are one commit, or none."""
