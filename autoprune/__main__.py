"""`python -m autoprune` is the command line."""

from autoprune.cli import main

main()
