"""
What is measured: segments, metrics, goals, wire formats, evidence, tokens, timelines, recordings.

Both halves use it: the live half makes timelines and records, the study half reads them. It starts
no thread and owns no lock, except those of the recorder and of the writer of histogram logs.
"""
