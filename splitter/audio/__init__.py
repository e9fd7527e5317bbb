"""Sound: read to its true end, resampled, cut and encoded.

recordings   a file, whatever its name says -> the decoder that knows it
decoders     the decoders; flac, mp3, ogg and wav know what is in such files, av_decoder what PyAV reads
sound        a recording as a stream: mixed, resampled, encoded
resampling   another rate, as a stream; tape, what is kept of a stream
cutting      what the recipes for sound share
headers      what the first bytes of an output say, to compare it with its row
"""
