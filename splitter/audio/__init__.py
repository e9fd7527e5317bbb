"""Sound: read to its true end, resampled, cut and encoded.

formats      one format, one file: wav, flac, mp3, ogg, av
sniff        the decoder that knows a recording, whatever its name says
decoders     the decoders
probe        the length of a recording, by its header
headers      what the first bytes of an output say
sources      a recording as a stream of pieces
window       the frames of a stream that may still be asked for
resampling   another sample rate, as a stream
target       the format that pieces are stored in
encode       frames -> a file
"""
