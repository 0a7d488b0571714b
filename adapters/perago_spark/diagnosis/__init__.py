"""What Spark does here: why it failed, how far it is, and whether it starts at all."""
