"""The driving side: tasks people write, the worker that runs them, configuration and the command line."""
