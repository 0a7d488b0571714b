"""Delta and Iceberg tables: read and written by their own formats, staged and published as everything is."""
