"""The service in this process keeps the contract of every face."""

from warpsmith.testing import AuthorContract


class TestLocalAuthor(AuthorContract):
    pass
