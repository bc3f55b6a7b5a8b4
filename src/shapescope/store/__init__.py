"""The run folder: the one bridge between recording and reading."""
