"""Sound: read to its true end, resampled, cut and encoded.

formats       one format, one file: wav, flac, mp3, ogg, av
sniff         the decoder of a recording, chosen by its first bytes and not its name
decoders      recordings -> samples: the decoders of raw samples and of libsndfile
probe         the length of a recording, from its header
headers       the header of an output, to compare with its row of the manifest
base          the interface `SoundSource`: a recording to cut pieces from
sources       how to cut a recording: copy it if that loses nothing, else decode it
copying       recordings that are cut without decoding, by copying bytes or frames
packets       pieces made of an Opus recording's packets, checked to sound the same
pieces        a piece to be cut later, and the text that says how
decoded       recordings that are decoded, mixed, resampled and encoded
ahead         pieces that threads encode while more of the recording is decoded
window        the frames of a stream that may still be needed
resampling    a stream converted to another sample rate
levels        the level of a recording, frame by frame
spectra       spectrograms of a stream, in decibels
borders       the best borders of pieces, by the loudness of the recording
speech_model  the probability of speech in each window of a recording, by silero-vad
target        the format that pieces are stored in
encode        frames -> a file
"""
