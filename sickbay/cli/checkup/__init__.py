"""The checks of ``sickbay doctor``: each looks at one thing, changes nothing, and says how to mend what it finds."""
