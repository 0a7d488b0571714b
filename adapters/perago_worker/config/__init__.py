"""Settings: what there is to set, and where it comes from."""
