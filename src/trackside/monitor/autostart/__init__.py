"""Starts a monitor in a script that never mentions Trackside.

`trackside run` puts this folder in front of the ranks' `PYTHONPATH`, where Python finds its `sitecustomize` before the
script runs. Until the script imports torch that is all there is; a script that never does stays without a monitor.
"""
