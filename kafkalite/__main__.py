"""`python -m kafkalite` is `kafkalite`."""

from kafkalite.cli.main import main

if __name__ == "__main__":
    main()
