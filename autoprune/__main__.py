"""`python -m autoprune` is the command line."""

from autoprune.apps.cli import main

main()
