"""latspan and other implementations read each other's files."""
