"""Entry point of `splitter` and `python -m splitter`, which also works in a checkout without installation."""

from splitter.system.exit_signals import end_at_signals

# first, because the import below takes a while
end_at_signals()

from splitter.cli.main import main  # noqa: E402

if __name__ == "__main__":
    main()
