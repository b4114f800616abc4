"""``python -m ridgeline``: the command line, where its script is not on the path."""

from ridgeline.cli import main

if __name__ == "__main__":
    main()
