"""The folder or URL that relative paths start from."""

import os
from collections.abc import Callable

from splitter.errors import Refused
from splitter.storage.layout import Layout
from splitter.stores.listings import refuse_password
from splitter.text.urls import begin_of, is_url, joined, without_scheme


def path_mover(root: str, common: str) -> Callable[[str], str]:
    """Return a function that makes paths relative to `root` relative to `common`, or else absolute."""
    if root == common:
        return lambda text: text
    layout = Layout(root)
    below = common.rstrip("/") + "/"
    if not root.startswith(below) or below == "/":
        return layout.location
    inner = root.removeprefix(below)
    return lambda text: text if text[:1] == "/" or "://" in text else f"{inner}/{text}"


def common_root(roots: list[str]) -> str:
    """Return the folder that contains all roots; the first root if there is none, as with two stores."""
    if len({*roots}) == 1:
        return roots[0]
    if not any(map(is_url, roots)):
        return os.path.commonpath(roots)
    if not all(map(is_url, roots)) or len({begin_of(root) for root in roots}) > 1:
        return roots[0]
    begin = begin_of(roots[0])
    same = os.path.commonpath([f"/{root.removeprefix(begin)}" for root in roots])
    return (begin + same).rstrip("/")


def root_below(home: str, asked: str) -> str:
    """Return the folder or URL that relative paths start from: `asked`, which may be relative to `home`."""
    if is_url(asked):
        refuse_password(asked)
        return joined(asked, "")
    if is_url(home) and not os.path.isabs(os.path.expanduser(asked)):
        return joined(home, asked)
    root = os.path.normpath(os.path.join(home, os.path.expanduser(without_scheme(asked))))
    if not os.path.isdir(root):
        raise Refused(f"{root}: the folder that input paths are relative to does not exist; check --root")
    return root


def absolute_path(path: str, what: str) -> str:
    """Return the absolute path of a local file or folder; return a URL unchanged."""
    if is_url(path):
        refuse_password(path)
        return path
    if not path or "\0" in path:
        raise Refused(f"{what} {path!r}: is not a path; pass a list or a folder")
    if path.startswith("pipe:"):
        raise Refused(f"{path}: commands are not run; pass the shards as files or URLs")
    return os.path.abspath(os.path.expanduser(without_scheme(path)))
