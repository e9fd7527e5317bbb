"""The endings of sound files."""

# formats that libsndfile reads
READABLE = frozenset("aif aifc aiff au caf flac mp3 oga ogg opus rf64 snd w64 wav wave".split())  # noqa: SIM905
SOUND = READABLE | frozenset("aac ac3 amr ape m4a m4b mka mp2 mp4 ra sph spx weba wma wv".split())  # noqa: SIM905
