"""Benchmarks of generated kernels: a plan read from the text, measured in the user's interpreter, judged here.

``plan`` reads a file as text, ``inside`` runs in the user's interpreter (torch and the standard library only) and leaves
raw times, ``measure`` and ``verdict`` turn times into numbers and judgements, ``shares`` compares time with the wall.
"""
