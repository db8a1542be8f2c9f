"""An author over HTTP, through a real socket, keeps the contract of every face."""

from warpsmith.testing import AuthorContract


class TestRemoteAuthor(AuthorContract):
    pass
