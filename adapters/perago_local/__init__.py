"""The embedded default: a git store, an orchestrator and a coordination store on SQLite. Real parts, one machine."""
