"""Tests that the benchmarks measure what they say."""
