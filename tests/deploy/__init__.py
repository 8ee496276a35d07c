"""What is deployed: the compose file, the image, the configurations."""
