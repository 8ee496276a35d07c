"""Tests of the lab: what everything else is tested on."""
