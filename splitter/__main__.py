"""`python -m splitter`, also from a checkout that is not installed; and the command `splitter`."""

from splitter.system.exit_signals import end_at_signals

# what comes next takes a while
end_at_signals()

from splitter.cli.main import main  # noqa: E402

if __name__ == "__main__":
    main()
