"""From tables to the rows of the profile document: one module a section of it."""
