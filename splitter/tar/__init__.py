"""Tools for tar shards: `splitter tar`.

places    what the user names -> streams to read, files that appear whole or not at all
archive   a stream of bytes <-> members, strictly
samples   members <-> samples
copying, ordering, tables, showing, mapping    the tools
commands  their command lines
"""
