"""The components of pages, which reports, the site and notebooks share: tables, charts, sources, the style, a page in one file.

In: records and plain data. Out: HTML that loads and runs nothing. Nothing of an archive is trusted: text is escaped, and what cannot
be seen is written by its number.
"""
