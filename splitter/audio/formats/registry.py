"""All formats, in one list."""

from splitter.audio.formats import flac, mp3, nist, ogg, others, voc, wav

# the formats that libsndfile reads, then others; of two that begin alike, the first counts
OF_LIBSNDFILE = (*wav.FORMATS, nist.FORMAT, voc.FORMAT, flac.FORMAT, ogg.FORMAT, mp3.FORMAT)
FORMATS = (*OF_LIBSNDFILE, *others.FORMATS)
BY_NAME = {one.name: one for one in OF_LIBSNDFILE}
# the usual encodings of lossy formats
LOSSY = {one.name: one.lossy for one in FORMATS if one.lossy}


def usual_ending(container: str) -> str:
    """Return the usual ending of the names of files in a container."""
    about = BY_NAME.get(container)
    return about.ending if about else container.lower()
