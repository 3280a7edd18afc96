"""
Everything of latspan that depends on the insides of OpenTelemetry.

OpenTelemetry does not promise these names, so any release may change them. Each module names what
it reads, why, and what latspan does instead if a release has changed it. The replacement is slower
or less precise; it is never an error.

=================== =============================================== ===============================
module              what it reads                                   without it
=================== =============================================== ===============================
``context_keys``    the context key of the current span             the API's own function
``context_keys``    the context keys that suppress instrumentation  only the key of plain text
``providers``       whether a provider has processors               it counts as having some
``tracers``         the limits and the scope of the SDK's tracer    child spans through the API
``tracers``         the hooks and the types of span processors      spans start and end one by one
``samplers``        the decisions of the SDK's samplers             the sampler is called each time
``limits``          how the SDK counts dropped attributes           (public since SDK 1.0)
=================== =============================================== ===============================

The versions are those of ``pyproject.toml``: from 1.39 on, and the newest in the tests.
"""
