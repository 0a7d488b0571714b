"""What authors of tasks use: data sets by name, and checks of what was written."""
