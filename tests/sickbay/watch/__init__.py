"""The watcher's room."""
