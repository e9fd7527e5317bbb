"""Sound: read to its true end, resampled, cut and encoded.

formats       one format, one file: wav, flac, mp3, ogg, av
sniff         which decoder reads a recording, by its first bytes and not its name
decoders      recordings -> samples: the decoders of raw sound and of libsndfile
probe         the length of a recording, by its header
headers       the header of an output, to compare with its row of the manifest
base          the seam `SoundSource`: a recording as a stream of pieces
sources       which way a recording is cut
copying       recordings that are cut without decoding, by copying bytes or frames
packets       Opus that is cut by its packets, and the proof that it sounds the same
pieces        a piece that is not cut yet, and the text that says how
decoded       recordings that are decoded, mixed, resampled and encoded
ahead         pieces that threads encode while the recording is decoded on
window        the frames of a stream that may still be asked for
resampling    another sample rate, as a stream
levels        the level of a recording, frame by frame
spectra       spectrograms of a stream, in decibels
borders       the best borders of pieces, from how loud a recording is
speech_model  the probability of speech in each window of a recording, by silero-vad
target        the format that pieces are stored in
encode        frames -> a file
"""
