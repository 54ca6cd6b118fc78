"""``launchscope`` on the fake device, for tests that need the command line in a process of its own."""

from functools import partial

from launchscope.cli import main
from launchscope.tracer import api

if __name__ == "__main__":
    api.run_profile = partial(api.run_profile, device_layer="fake_device:FakeDevice")
    main()
