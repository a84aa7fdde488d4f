"""Reads a view from a file that the project needn't declare."""

from __future__ import annotations

from pathlib import Path

from anabranch.core.errors import AnabranchError, BadDefinition, BadInput
from anabranch.views import View
from anabranch.views.registry import views_in


def view_of(path: Path, name: str | None = None) -> View:
    """The view ``name`` of a ``.py`` or ``.sql`` file; without a name its only one. Its newest version.

    A module is run again each time, so an edited file is read as it is now. Raises BadInput FILE_UNREADABLE,
    VIEW_UNKNOWN or VIEW_NAME_NEEDED; BadDefinition VIEW_FILE when the file can't be loaded, or what its definition is
    refused with.
    """
    if path.suffix not in (".py", ".sql") or not _is_file(path):
        raise BadInput(
            "FILE_UNREADABLE",
            f"{str(path)[:200]} is no .py or .sql file",
            state="nothing was run",
            next_step="give the file that declares the view",
            file=str(path),
        )
    found = {view.name: view for view in sorted(_loaded(path.absolute()), key=lambda view: view.version)}
    known = ", ".join(found) or "none"
    if name is not None and name not in found:
        raise BadInput("VIEW_UNKNOWN", f"{path} declares no view {name!r}", next_step=f"its views are: {known}")
    if name is None and len(found) != 1:
        what = f"{path} declares {len(found)} views" if found else f"{path} declares no view"
        step = f"choose one with --view: {known}" if found else "declare one: @view(...) above a function"
        raise BadInput("VIEW_NAME_NEEDED", what, state="nothing was run", next_step=step)
    return found[name] if name is not None else next(iter(found.values()))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, for example
        return False


def _loaded(path: Path) -> list[View]:
    try:
        return list(views_in(path, reload=True))
    except AnabranchError:
        raise
    except Exception as error:  # a module may raise anything
        line = error.lineno if isinstance(error, SyntaxError) else None
        what = error.msg if isinstance(error, SyntaxError) else f"it raised {type(error).__name__}: {error}"
        raise BadDefinition(
            "VIEW_FILE",
            f"{path}{f':{line}' if line else ''}: {what}",
            state="nothing was run",
            next_step="correct the file",
            file=str(path),
            line=line,
        ) from error
