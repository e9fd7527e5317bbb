"""What pieces of sound are like: one measure, one file, one function.

base       a piece that is measured, and what makes a function a measure
chosen     the measures that `--measure` names
levels     RMS and peak
clipping   how much is clipped
loudness   LUFS, as ITU-R BS.1770 has it
true_peak  the largest value, between samples too
snr        how far the sound is above its noise
bandwidth  the highest frequency with energy
speech     how much is speech, by silero-vad
dnsmos     how good speech sounds, by DNSMOS
"""
