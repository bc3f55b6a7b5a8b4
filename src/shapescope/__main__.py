"""`python -m shapescope`, as torchrun starts it."""

from shapescope.cli import main

main()
