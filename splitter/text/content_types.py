"""Content types of files, for browsers."""

REPORT = "report.html"


# no HTML: an output must never run as a page in the browser
TYPES = {
    "wav": "audio/wav",
    "flac": "audio/flac",
    "mp3": "audio/mpeg",
    "ogg": "audio/ogg",
    "oga": "audio/ogg",
    "opus": "audio/ogg",
    "m4a": "audio/mp4",
    "aiff": "audio/aiff",
    "webm": "audio/webm",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
    "svg": "image/svg+xml",
    "bmp": "image/bmp",
    "txt": "text/plain; charset=utf-8",
    "csv": "text/plain; charset=utf-8",
    "json": "text/plain; charset=utf-8",
}


def type_of(name: str) -> str:
    """Return the content type of a file, by the ending of its name."""
    return TYPES.get(name.rpartition(".")[2].lower(), "application/octet-stream")
