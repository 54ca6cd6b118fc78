"""``python -m launchscope``."""

from .cli import main

if __name__ == "__main__":
    main()
