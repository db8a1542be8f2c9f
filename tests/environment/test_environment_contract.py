"""The environment in this process keeps its published contract."""

from warpsmith.testing import EnvironmentContract


class TestEnvironment(EnvironmentContract):
    pass
