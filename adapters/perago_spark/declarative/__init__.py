"""A project of Spark Declarative Pipelines as one task: its tables, checkpoints and catalog are one commit, or none."""
