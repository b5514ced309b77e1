"""The `opta` command: answers `--version`, cleans the import path, starts the command line.

Until the path is clean, only modules are imported that the interpreter has loaded before it looks
at any path: whatever else is imported could come from the directory the person stands in.
"""

import os
import site
import sys

__version__ = "0.1.0"

_COLLECT_EVERY = 100_000
"""New objects between two collections: more than a start makes, for nearly all of them stay."""


def isolate_import_path() -> None:
    """Drop what `PYTHONPATH` and the current directory put on `sys.path`; put opta's code first.

    The environment variable stays, so that commands run for the user still see it.
    """
    here = os.path.dirname(os.path.realpath(__file__))
    code = os.path.join(here, "_opta")
    foreign = {_real(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path}
    foreign |= _current_directory()
    foreign -= _own_directories(here)
    kept = [path for path in sys.path if path and _real(path) not in foreign]
    sys.path[:] = [code if os.path.isdir(code) else here, *kept]


def _real(path: str) -> str:
    return os.path.normcase(os.path.realpath(path))


def _current_directory() -> set[str]:
    try:
        return {_real(os.getcwd())}
    except OSError:
        return set()


def _own_directories(here: str) -> set[str]:
    """Return where opta and its dependencies live: they stay even for a person standing there."""
    library = os.path.dirname(os.__file__)
    native = os.path.join(library, "lib-dynload")
    return {_real(path) for path in (here, library, native, *site.getsitepackages())}


def _print(text: str) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, AttributeError, ValueError):
        # Nothing to write to: leave nothing behind that Python would complain of at exit.
        sys.stdout = None
        return 1
    return 0


def main() -> int:
    """Run the command line. Returns the exit code (see `opta --help`)."""
    if sys.argv[1:] == ["--version"]:
        return _print(f"opta {__version__}\n")
    isolate_import_path()
    import gc

    gc.set_threshold(_COLLECT_EVERY, 20, 20)
    if hasattr(sys, "set_lazy_imports"):
        sys.set_lazy_imports("all")
    from agent.cli import main as run_cli

    code = run_cli(sys.argv[1:], version=__version__)
    # Or the interpreter looks for garbage among all objects once more, before it drops them.
    gc.freeze()
    return code


if __name__ == "__main__":
    sys.exit(main())
