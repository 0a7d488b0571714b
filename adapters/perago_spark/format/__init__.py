"""The format of a data set in a store: Parquet files, and beside them the seals that say which files count.

``layout`` has the names, ``seal`` what a write amounts to, ``schema`` the columns, ``digest`` the content of rows,
``parquet`` and ``pruning`` the files themselves, ``compaction`` the rule for rewriting them.
"""
