"""
latspan and five other instrumentations of the OpenAI client, measured in one run.

How: each library has an environment of its own under ``build/rivals``, with the same client and
the same OpenTelemetry. Each is switched on in a process of its own, as its documentation describes
(``_switches.py``), and the processes take turns at the same work: now the client alone, now the
first library, and so on, beginning with another one each round. Of what a library adds three
figures are shown: the difference of the two least results, which is what it costs when nothing
disturbs; the median of the differences in the same round; and where the middle half of those lies.
Processes are started anew several times in a run, because two processes of one program differ too.
The control is a second process with the client alone.

*Per chunk*: streams of 3,000 chunks without delay, twenty of them per read. *While streaming* is
CPU time of the caller's thread from the first chunk to the last; *whole call, caller's thread* has
the beginning and the end too; *whole call, process* also what other threads do, until everything is
in the in-memory exporter.

*Per call*: blocks of 20 calls of three words each.

*200 streams at once*: on one event loop, five chunks per second each. Each chunk contains the time
at which it was due, so its lateness is known; most of the lateness arises because the loop is busy
with other streams.

*A dead collector*: calls of some 8 ms, one after the other, while spans and metrics go to a port
that refuses, or to a listener that never answers. Here the time that passes counts.

*Import*: CPU time of a fresh interpreter for importing ``openai`` and what an application imports
of the library, and until everything is switched on, the SDK's providers included.

*Situations*: thirteen ways a call can go, on a schedule that is known (``_situations.py``), and
what each library reports in its own attributes, events and metrics (``_places.py``).

Caveats: everything comes from memory, through the client's own connection pool; nothing is encoded
or sent, but to the dead collector. Settings are the defaults, so some libraries keep the content of
prompts and answers and others do not, and some record metrics and others do not; that is part of
what they cost. What each does with what it measures, in dashboards, evaluations and prompts, is not
looked at here.

Reproduce: ``make bench-rivals``
"""
