"""The rank's side: everything that runs inside the user's process.

It must never raise into, block, slow or outlive the user's program, and never import torch, numpy, asyncio or a server.
Two daemon threads at most: `trackside-send` and `trackside-sample`.
"""
