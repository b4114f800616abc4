"""``ridgeline lsp``: the server on standard input and output."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from ridgeline.lsp.server import RidgelineServer


def create_server() -> RidgelineServer:
    """The server with all features registered."""
    from ridgeline.lsp import (
        actions,
        benching,
        commands,
        comparing,
        diagnostics,
        heat,
        hints,
        hot,
        hovers,
        lenses,
        lifecycle,
        navigation,
        overview,
        symbols,
        targets,
        timing,
        tracing,
        tree,
    )
    from ridgeline.lsp.server import RidgelineServer

    server = RidgelineServer()
    for feature in (
        benching,
        timing,
        comparing,
        tracing,
        lifecycle,
        lenses,
        hints,
        hovers,
        diagnostics,
        navigation,
        actions,
        symbols,
        heat,
        tree,
        hot,
        overview,
        targets,
        commands,
    ):
        feature.register(server)
    return server


def take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output for the protocol alone.

    Whatever else prints (a stray ``print``, a library's warning, a child) goes to standard error, at the level of file
    descriptors, and children get an empty standard input.
    """
    protocol_in = os.fdopen(os.dup(0), "rb")
    protocol_out = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return protocol_in, protocol_out


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="ridgeline lsp", description="The language server, on standard input and output."
    )
    parser.add_argument("--stdio", action="store_true", help="accepted for editors that pass it; there is no other way")
    parser.add_argument("--log-level", default="WARNING", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    options = parser.parse_args(arguments)
    protocol_in, protocol_out = take_streams()
    logging.basicConfig(stream=sys.stderr, level=options.log_level, format="%(levelname)s %(name)s: %(message)s")
    # pygls logs whole messages at INFO: megabytes of lenses would go through the client's log.
    logging.getLogger("pygls").setLevel(max(logging.WARNING, logging.getLevelName(options.log_level)))
    # Importing lsprotocol makes some thousand classes; looking for garbage among them costs a tenth of the start.
    gc.disable()
    server = create_server()
    gc.freeze()
    gc.enable()
    server.start_io(protocol_in, protocol_out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
