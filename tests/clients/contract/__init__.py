"""What holds for every integration, whichever client library it is for."""
