"""Starting the ranks of a job, and watching their processes.

torch elastic starts, restarts and ends the ranks exactly as it does under torchrun; `elastic` is the one place that
touches torch. Beside it live the controller's process, the ranks' output, and the host's agent, which reports starts,
exits and resources over the link. Nothing here may disturb the elastic agent, which owns the main thread: the agent's
work has threads of its own, and whatever fails there costs the page something and the training nothing.
"""
