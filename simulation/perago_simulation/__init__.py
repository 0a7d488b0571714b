"""The simulator: the production ``step`` in a world where everything may go wrong, explored within stated bounds."""
