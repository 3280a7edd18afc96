"""
The live half: it runs inside the application, and measures, records and exports.

This file stays empty of imports: an application that only decorates a function imports little.
"""
