"""The attack service: hostile candidates composed from parametrised families, and honest variants, all of them judged."""
