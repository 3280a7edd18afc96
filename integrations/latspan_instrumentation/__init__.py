"""
Integrations of client libraries, servers and Locust: one package per library.

A package is named like its library. So this folder must never be on ``sys.path`` itself, because
``import openai`` would then find the integration; its parent is. latspan imports a package when the
library is imported, and never before.
"""
