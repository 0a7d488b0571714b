"""The explorer: breadth-first search over every reachable world, its memo, its reductions, its worker processes."""
