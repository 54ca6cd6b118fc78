"""``launchscope`` on the fake device, for tests that need the command line in a process of its own."""

import os
from functools import partial

from launchscope.cli import main
from launchscope.tracer.processes import api, exchange, launch

if __name__ == "__main__":
    exchange.LOST_S = float(os.environ.get("LOST_S", exchange.LOST_S))
    launch.run_ranks = partial(launch.run_ranks, device_layer="fake_device:FakeDevice")
    api.run_profile = partial(api.run_profile, device_layer="fake_device:FakeDevice")
    main()
