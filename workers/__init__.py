"""The processes and their wiring."""

PART_OF = "sickbay"
