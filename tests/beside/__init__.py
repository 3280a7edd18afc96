"""Tests of latspan beside other instrumentations, and beneath frameworks."""
