"""Whether everything that runs left is present and unchanged: `splitter verify`.

check        the whole of it
own_files    the files of the run's own
reshard      a shard, made again of its rows
again        --deep: inputs done once more
findings     what was found, and how it is told
repair       what is to be made again
"""
