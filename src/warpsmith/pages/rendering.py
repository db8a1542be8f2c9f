"""Templates of pages, and one file that holds a whole page.

Everything is escaped, and characters that cannot be seen are written by their numbers. A page in one file loads nothing and runs
nothing: its content security policy allows its own style, by its hash, and no script at all.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from .. import __version__
from .safety import CLIP, clip, finalize, make_breakable, make_file_id

HERE = Path(__file__).parent


def make_environment(*folders: Path) -> Environment:
    """Make an environment of the templates in these folders and of the shared ones. A name that is not there is an error."""
    environment = Environment(
        loader=FileSystemLoader([*folders, HERE / "templates"]), autoescape=True, undefined=StrictUndefined, finalize=finalize,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"breakable": make_breakable, "clip": clip, "file": make_file_id}
    environment.globals["version"] = __version__
    return environment


@cache
def read_style(*names: str) -> str:
    """Read parts of the style: "pages" and "charts", which all pages have, and "file", what pages in one file add to them."""
    return "".join((HERE / "static" / f"{name}.css").read_text(encoding="utf-8") for name in names)


def make_policy(style: str) -> str:
    """Write the content security policy of a page in one file that has this style."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def render_file(title: str, body: Markup) -> str:
    """Render a page in one file. `title` is plain text."""
    style = read_style("pages", "charts", "file")
    template = make_environment().get_template("file.html")
    return template.render(
        title=clip(title, CLIP), body=body, style=Markup(style), policy=Markup(make_policy(style))
    )
