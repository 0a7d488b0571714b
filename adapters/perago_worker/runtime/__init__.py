"""The worker process: polling, running attempts, heartbeats, liveness, telemetry."""
