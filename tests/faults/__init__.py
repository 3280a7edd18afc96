"""What goes wrong around an application, made to go wrong for real."""
