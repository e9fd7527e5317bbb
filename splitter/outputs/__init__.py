"""Read back the outputs of a run.

files       the files of an output folder, local or at a URL
reader      the content of an output, from any sink
pieces      virtual pieces, read from the original recordings
tables      manifest.csv and errors.csv, row by row
frame       the manifest as a DataFrame
stats       counts, hours and sizes, by any column
opening     `splitter.open`
dataset     the outputs as a map-style dataset
streaming   the outputs as an iterable dataset
decoding    an output as a tensor, an image or a text
"""
