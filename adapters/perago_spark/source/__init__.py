"""Spark's side of a data set: the ``perago`` data source, and the route through Spark's own Parquet writer.

``options`` carries a read or a write to the processes of Spark; ``staging`` links and seals what either route wrote.
"""
