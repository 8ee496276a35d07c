"""Side effects, one verb each, each safe to repeat."""

PART_OF = "sickbay"
