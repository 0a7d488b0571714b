"""The orchestrator on Conductor: translates answers of its API, decides nothing."""
