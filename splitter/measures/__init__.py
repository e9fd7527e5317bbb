"""Measures of pieces of sound: each is one function in one file.

base       the sound to measure, and the decorator that turns a function into a measure
chosen     the measures that `--measure` names
levels     RMS and peak
clipping   how much is clipped
loudness   LUFS, as ITU-R BS.1770 defines it
true_peak  the largest value, also between samples
snr        how far the sound is above its noise
bandwidth  the highest frequency with energy
speech     how much is speech, according to silero-vad
dnsmos     how good speech sounds, by DNSMOS
"""
