"""The language server: shows finished runs on source lines in any editor, and starts new runs in other processes.

It imports pygls, lsprotocol and the standard library, ``ridgeline.index`` and ``ridgeline.runs``; never torch, numpy,
pandas or the analysis. One module a feature; :mod:`ridgeline.lsp.server` puts them together.

================  =====================================================================================================
documents         the text of open documents as lines, and the edits that reach them
anchors, diff     where a profiled line stands now, and whether it was edited since
store             runs on disk: which one is shown for a file, and what changed there
views             what is known of one open document: rows, places, findings, joined with their anchors
wording           numbers and sentences, the same in every feature
lenses … symbols  the features of LSP, each a ``register(server)`` and pure functions below it
running           the child process that profiles, its progress, cancel and failure causes
payloads          what goes to clients that want more than LSP: heat map and tree
================  =====================================================================================================
"""
