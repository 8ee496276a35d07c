"""Temporal workflows: they run what policy decides, and nothing else."""

PART_OF = "sickbay"
