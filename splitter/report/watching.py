"""The page that shows the progress of a run: what `splitter serve --watch` serves."""

import json
import threading
from collections.abc import Callable

from splitter.errors import SplitterError
from splitter.report.page import with_policy
from splitter.report.progress import RunWatch
from splitter.report.serving import Body, NotThere, Served, path_of

DATA = "/watch.json"
_HTML = "text/html; charset=utf-8"


class WatchPage:
    """A page that shows the progress of a run, the data that it requests, and the report after the run."""

    def __init__(self, watch: RunWatch, report: Callable[[], Served]) -> None:
        self._watch, self._make_report = watch, report
        self._report: Served | None = None
        self._one_at_a_time = threading.Lock()
        self._page = with_policy(
            "watch.html",
            "splitter run",
            watch.title,
            styles=("uPlot.min.css", "page.css", "watch.css"),
            programs=("uPlot.iife.min.js", "data.js", "theme.js", "watch.js"),
        )

    def body(self, path: str) -> Body:
        """Return the content at a path of the URL."""
        if path_of(path) == "/":
            return Body(_HTML, len(self._page), self._page)
        with self._one_at_a_time:
            seen = self._watch.look()
            if path_of(path) == DATA:
                content = json.dumps(seen).encode()
                return Body("application/json", len(content), content)
            report = self._report_now(is_running=bool(seen.get("who")))
        return report.body(path)

    def _report_now(self, *, is_running: bool) -> Served:
        """Return the report and the files next to it; raise NotThere while the run is in progress."""
        if is_running:
            self._report = None
            raise NotThere
        if self._report is None:
            try:
                self._report = self._make_report()
            except SplitterError as error:
                raise NotThere from error
        return self._report
