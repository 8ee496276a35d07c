"""Detect, admit, record, fence, start: the one active watcher."""
