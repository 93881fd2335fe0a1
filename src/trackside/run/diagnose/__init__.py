"""Who is slow, and why: step times of every rank, compared with those of its peers in the same steps.

Pure, as all of `run`: what arrives is joined into columns, kept in a sliding window of steps, and judged on ticks, never a
message at a time. A rank is blamed for its own time only, never for waiting in a collective; what cannot be told is not
guessed. It lives on the controller's event loop.
"""
