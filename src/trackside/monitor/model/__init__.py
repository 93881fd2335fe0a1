"""What `watch` learns of a model: its structure at once, then from its own passes what ran, what flowed, what it costs.

`tree`, `structure`, `counts` and `folding` look at the module without running it. `recording` and `flow` follow one
real forward, `timing` measures one in many, `hooks` is what they hang on the modules, and `watching` decides when.
Nothing here is traced, run twice, moved, copied or synchronised: a pass of the user's is looked at while it happens.

Threads: the training thread, but for `document` and what `watching` says it does on the send thread. All modules but
this one import torch, so they are loaded by `watch` only, when the user has loaded it already.
"""
