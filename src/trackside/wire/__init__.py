"""What crosses a process boundary: identities, values, messages, their encoding, the controller's address.

The two sides meet here and nowhere else. A leaf: it imports nothing of Trackside but `errors`, starts no thread and
opens nothing. The rank side must not import `columns`, which needs numpy.
"""
