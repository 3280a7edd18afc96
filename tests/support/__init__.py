"""Real parts that several tests run against."""
