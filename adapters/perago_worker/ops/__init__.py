"""What operators do beside running tasks: recover, collect garbage, explain, examine."""
