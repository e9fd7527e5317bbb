"""The command line: parse, call, print.

main         the program: the commands, exit codes, and errors in one line
options      parameters of recipes and runs as options; job files
run          `splitter run` and `splitter plan`
pipeline     `splitter pipeline`, and `splitter run --then`
inspect      `splitter verify`, `stats`, `split`, `manifest` and `recipes`
export       `splitter export`
report       `splitter report` and `splitter serve`
tar          `splitter tar`
doctor       `splitter doctor`
completion   suggestions for the Tab key
"""
