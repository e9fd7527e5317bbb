"""`python -m splitter`, also from a checkout that is not installed."""

from splitter.cli import main

if __name__ == "__main__":
    main()
