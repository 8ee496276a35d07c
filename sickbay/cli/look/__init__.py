"""What the commands show that change nothing."""
