"""What runs have left, read back.

contents     an output file, from whatever sink
tables       manifest.csv and errors.csv, row after row
frame        the manifest as a DataFrame
stats        what it comes to, in numbers
opening      `splitter.open`: a map-style dataset (opened), or an iterable one (streaming), of what is decoded
"""
