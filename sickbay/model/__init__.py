"""What things are: frozen models shared by every room."""
