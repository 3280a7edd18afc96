"""
Comparison of latspan with five other instrumentations of the OpenAI client and with two load tools.

Method: each library has its own environment under ``build/rivals``, with the same versions of the
client and of OpenTelemetry. Each library is switched on in its own process, as its documentation
describes (``_switches.py``). The processes take turns with the same work: the client alone, the
first library, and so on; each round begins with another process. The tables show three figures for
the cost that a library adds: the difference between the lower deciles with and without the library,
which is the cost with little disturbance; the median of the differences in the same round; and the
range of the middle half of these differences. All processes are restarted several times per run,
because two processes of the same program differ too. The control is a second process with the
client alone.

*Per chunk*: streams of 3,000 chunks without delays, with twenty chunks per read. *While streaming*
is the CPU time of the caller's thread from the first chunk to the last. *Whole call, caller's
thread* includes the start and the end of the call. *Whole call, process* also includes the other
threads, until the in-memory exporter has all spans.

*Per call*: blocks of 20 calls, each with a response of three words.

*200 streams at once*: one event loop reads 200 streams with five chunks per second each. Each chunk
contains the time at which it was due, which gives its lateness. A chunk is late mostly because the
loop is busy with other streams.

*A dead collector*: calls of about 8 ms, one after the other, while spans and metrics are exported
to a port that refuses connections, or to a listener that never responds. The figures are elapsed
time.

*Import*: the CPU time of a new interpreter until ``openai`` and the modules that an application
imports from the library are imported, and until everything is switched on, including the SDK's
providers.

*Situations*: thirteen courses of a call, each on a known schedule (``_situations.py``), and the
values that each library reports in its own attributes, events and metrics (``_places.py``).

*Load tools*: ``latspan measure``, guidellm and aiperf send the same requests to the same scripted
server, which writes down its own times (``_load_tools.py``, ``_load_runs.py``). The figures are the
error of each tool's own percentiles against these times, the rate that the server saw, and the CPU
time of the tool's process tree per 1,000 tokens. A run with few requests is subtracted, so that the
start does not count. Each tool has its own environment, without the shared client.

Caveats: except in the part with load tools, all responses come from memory, through the client's
own connection pool. Nothing is encoded or sent, except to the dead collector. All libraries have
their default settings, except for those that ``_libraries.py`` names. So only some of them keep the
content of prompts and responses, and only some record metrics; this is part of their cost. The
comparison does not cover the libraries' other features, for example dashboards, evaluations and
prompt management.

Reproduce: ``make bench-rivals``
"""
