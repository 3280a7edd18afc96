"""
What exists once per process: the runtime, its worker thread, signals, loop watch, import order.

- :mod:`~latspan._live.process.runtime`: the clock, recorder and spans that open requests use.
- :mod:`~latspan._live.process.worker`: the thread that ends requests, and the queue before it.
- :mod:`~latspan._live.process.sigterm`: exports what was recorded if SIGTERM ends the process;
  :mod:`~latspan._live.process.sigterm_watch` waits for the signal.
- :mod:`~latspan._live.process.loading` and :mod:`~latspan._live.process.import_locks`: modules that
  are needed later are imported in the background, without waiting for an import lock that another
  thread holds.
- :mod:`~latspan._live.process.event_loop`: blocks of the asyncio loops on which requests run.
- :mod:`~latspan._live.process.per_process`: an object that a forked child makes anew.
"""
