"""Confusion matrix of `latspan diagnose`, on simulated faults."""
