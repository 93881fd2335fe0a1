"""Where the time of each step goes, without a change of the user's code.

The training thread only appends marks (`track`), at the places that `borders` and the hooks in torch know; the send
thread folds them into steps (`fold`) and sends these (`entries`). Never waits for a device, never imports torch, never
raises into the user's program, and puts everything back when the monitor finishes.
"""
