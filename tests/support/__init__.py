"""Real components that several tests run against."""
