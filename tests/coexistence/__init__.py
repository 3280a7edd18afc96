"""Tests of latspan together with other instrumentations, and under frameworks."""
