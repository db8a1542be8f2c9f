"""Authors from outside, people and coding agents: they ask what a task is, and tell units, which are judged
as any other.

In: a task as the user names it, and unit sources from somebody who is not trusted. Out: views that can be
read by people and programs alike, and verdicts. What comes in passes the front matter and the judge,
nothing else; every result is in the archive with who wrote it. Faces: the commands `ask`, `tell` and
`board`, and the MCP server.
"""
