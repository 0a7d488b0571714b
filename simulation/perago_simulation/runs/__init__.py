"""Single runs: schedules, replays, shrinking, and judging what a run shows."""
