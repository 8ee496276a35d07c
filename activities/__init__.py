"""Side effects, one verb each, each safe to repeat."""
