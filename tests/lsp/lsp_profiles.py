"""What four kinds of clients say that they can do."""

from __future__ import annotations

import pytest_lsp
from lsprotocol import types

PROFILES = ("vscode", "neovim", "emacs", "helix")


def capabilities(profile: str) -> types.ClientCapabilities:
    """Neovim's and Emacs's as recorded by pytest-lsp; VS Code's and Helix's as their current versions declare them."""
    if profile == "neovim":
        return pytest_lsp.client_capabilities("neovim@0.11")
    if profile == "emacs":
        return pytest_lsp.client_capabilities("emacs@29.1")
    return {"vscode": _vscode, "helix": _helix}[profile]()


def _vscode() -> types.ClientCapabilities:
    return types.ClientCapabilities(
        general=types.GeneralClientCapabilities(position_encodings=["utf-16"]),
        workspace=types.WorkspaceClientCapabilities(
            configuration=True,
            workspace_folders=True,
            did_change_configuration=types.DidChangeConfigurationClientCapabilities(dynamic_registration=True),
            code_lens=types.CodeLensWorkspaceClientCapabilities(refresh_support=True),
            inlay_hint=types.InlayHintWorkspaceClientCapabilities(refresh_support=True),
            execute_command=types.ExecuteCommandClientCapabilities(dynamic_registration=True),
            workspace_edit=types.WorkspaceEditClientCapabilities(
                document_changes=True,
                change_annotation_support=types.ChangeAnnotationsSupportOptions(groups_on_label=True),
            ),
        ),
        window=types.WindowClientCapabilities(
            work_done_progress=True, show_document=types.ShowDocumentClientCapabilities(support=True)
        ),
        text_document=types.TextDocumentClientCapabilities(
            code_lens=types.CodeLensClientCapabilities(dynamic_registration=True),
            inlay_hint=types.InlayHintClientCapabilities(dynamic_registration=True),
            hover=types.HoverClientCapabilities(content_format=[types.MarkupKind.Markdown, types.MarkupKind.PlainText]),
            publish_diagnostics=types.PublishDiagnosticsClientCapabilities(
                related_information=True, version_support=True, code_description_support=True, data_support=True
            ),
        ),
    )


def _helix() -> types.ClientCapabilities:
    """No code lens, no ``window/showDocument``."""
    return types.ClientCapabilities(
        general=types.GeneralClientCapabilities(position_encodings=["utf-8", "utf-32", "utf-16"]),
        workspace=types.WorkspaceClientCapabilities(
            configuration=True,
            workspace_folders=True,
            inlay_hint=types.InlayHintWorkspaceClientCapabilities(refresh_support=False),
            execute_command=types.ExecuteCommandClientCapabilities(dynamic_registration=False),
        ),
        window=types.WindowClientCapabilities(work_done_progress=True),
        text_document=types.TextDocumentClientCapabilities(
            inlay_hint=types.InlayHintClientCapabilities(dynamic_registration=False),
            hover=types.HoverClientCapabilities(content_format=[types.MarkupKind.Markdown]),
            publish_diagnostics=types.PublishDiagnosticsClientCapabilities(version_support=True),
        ),
    )
