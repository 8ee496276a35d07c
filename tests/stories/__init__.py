"""Whole incidents on a real cluster, one for each thing that can happen on the way."""
