"""The controller's process: builds the parts, joins them, and decides when it leaves.

One event loop owns the link, the run's state, the sinks and the page; the store has a thread of its own. Nothing else in
Trackside knows all the parts. It must outlive any rank, and must never make one wait.
"""
