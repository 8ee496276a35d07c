"""Tests of the lab's nodes."""
