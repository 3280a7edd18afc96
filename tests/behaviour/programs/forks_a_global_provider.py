"""An application with latspan's provider, and a worker forked from it."""

from __future__ import annotations

import os
import sys

from opentelemetry import trace

import latspan

latspan.configure(set_global_provider=True)
child = os.fork()
with trace.get_tracer("shop").start_as_current_span("the application's"), latspan.stage("retrieve"):
    pass
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
