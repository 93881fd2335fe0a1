"""The run's state: a pure machine that turns inputs into instructions.

It owns topology, liveness, cohort aggregation, epochs, events. It must never look at a clock, socket, file, thread or
database; time comes in with each input. It lives on the controller's event loop and is called from there only.
"""
