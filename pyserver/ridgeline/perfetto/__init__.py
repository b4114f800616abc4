"""The trace in Perfetto: a cleaned copy (:mod:`.clean`), served on loopback with an interface beside it (:mod:`.server`)."""
