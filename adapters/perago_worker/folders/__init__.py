"""Workspaces as local folders: fetched once, compared by content, uploaded as a difference, removed without a trace."""
