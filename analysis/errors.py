"""Every error that a user can meet.

    LaunchscopeError            something the user can fix; the message says what, where and what to do
    ├── UnreadableInput         a file or folder that is not what it should be
    ├── BadTarget               the script named on the command line can't be profiled as it stands
    ├── MissingRequirement      no GPU, no driver, no torch, an absent extra
    └── NothingMeasured         a profile in which no mode ran

A command prints the message on stderr and exits with 2. Anything else that is raised is a bug.
"""

from __future__ import annotations


class LaunchscopeError(Exception):
    """Something that the user can fix. The message says what, where and what to do."""


class UnreadableInput(LaunchscopeError):
    """A file or folder that can't be read as what it was given for."""


class BadTarget(LaunchscopeError):
    """A script, function or model that can't be profiled as it stands."""


class MissingRequirement(LaunchscopeError):
    """Hardware, a driver or a package that the command needs and that is not there."""


class NothingMeasured(LaunchscopeError):
    """A profile in which every mode failed."""
