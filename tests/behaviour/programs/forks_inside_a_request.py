"""A program that forks inside a request and a traced function; both continue in the child."""

from __future__ import annotations

import os
import sys

import latspan


@latspan.traced(name="divide")
def divide() -> int:
    with latspan.request("answer"):
        child = os.fork()
        with latspan.stage("retrieve"):
            pass
    return child


latspan.configure()
child = divide()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
