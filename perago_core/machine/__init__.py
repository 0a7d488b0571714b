"""What all machines are made of: rows, the engine that runs them, their description, traces and stored form."""
