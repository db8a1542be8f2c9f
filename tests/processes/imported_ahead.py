"""A module that a fork server is asked to import ahead."""
