"""`python -m prunebench` is the command."""

from prunebench.command import main

if __name__ == "__main__":
    main()
