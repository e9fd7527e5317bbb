"""All formats, in one list."""

from splitter.audio.formats import flac, mp3, nist, ogg, others, voc, wav

# those that libsndfile reads, and others; of two that begin alike the first is meant
OF_LIBSNDFILE = (*wav.FORMATS, nist.FORMAT, voc.FORMAT, flac.FORMAT, ogg.FORMAT, mp3.FORMAT)
FORMATS = (*OF_LIBSNDFILE, *others.FORMATS)
BY_NAME = {one.name: one for one in OF_LIBSNDFILE}
# the usual encodings of lossy formats
LOSSY = {one.name: one.lossy for one in FORMATS if one.lossy}


def usual_ending(container: str) -> str:
    """Return what the names of such files end with."""
    about = BY_NAME.get(container)
    return about.ending if about else container.lower()
