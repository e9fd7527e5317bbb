"""What is in sound files, by format.

wav    WAV, AIFF, CAF, AU and their relatives
flac   FLAC, cut by copying frames
mp3    MP3, its frames counted, and cut by copying them
ogg    Ogg, its pages checked
av     everything else, through PyAV
"""
