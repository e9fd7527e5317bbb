"""The formats of sound files. A new format is a new file here, and a name in `registry`.

base      how sound is stored, and the facts about a format
registry  all formats, in one list
wav       WAV, AIFF, CAF, AU and their relatives
nist      NIST SPHERE
voc       Creative Voice, block by block
samples   where the samples of a file are, in any of these containers
flac      FLAC, cut by copying frames
mp3       MP3, its frames counted, and cut by copying them
ogg       Ogg, its pages checked
av        the decoder of everything else, through PyAV
whole_stream  sound that FFmpeg reads and decodes by itself, in large blocks
mp4       edit lists of M4A that only leave out what the encoder put before the sound
asf       how much sound a WMA file states
matroska  Opus in WebM and Matroska, cut by its packets
headerless  advice about formats without a header
others    the names of formats that only PyAV reads, by their first bytes
"""
