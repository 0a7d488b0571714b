"""Objects on lakeFS: listed and linked by its client, streamed past it."""
