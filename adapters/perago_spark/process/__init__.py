"""The processes that bodies run in: a pool of them in the worker, Spark and one task at a time in each.

The worker's side is ``workspace`` (the port) over ``pool``; the child's is ``main`` over ``session`` or ``connect``.
They talk in ``messages``.
"""
