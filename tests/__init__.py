"""The tests of latspan."""
