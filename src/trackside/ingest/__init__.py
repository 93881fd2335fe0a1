"""Turns what arrives on the wire into inputs of the run state.

A frame is opened once, checked against its session (run, version, sequence, series dictionary), and becomes a past-tense
input; the points of everything that arrived together become one batch. Nothing here decides anything about the run,
touches a file, or raises because of what a peer sent: it refuses, counts, and says so. It lives in the controller's event
loop; the same code reads the journal again after a restart.
"""
