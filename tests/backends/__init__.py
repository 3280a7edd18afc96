"""What real backends have of what an application sent."""
