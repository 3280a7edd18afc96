"""Rendering of answers: text for a terminal, Markdown pages, and JSON for programs."""
