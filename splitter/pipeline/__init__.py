"""Several stages as one run: each is an ordinary run, which takes what the stage before commits.

definition  `Pipeline`: its stages, and from which stage each takes its inputs
running     one driver process for each stage, from the first to the last
driver      one stage: it follows the stage before, then makes its manifest
following   processes the outputs of the stage before as they are committed
fusing      stages whose work is done by the workers of the stage before
ranges      ranges of the first stage's inputs, for a stage that makes shards of them
neighbours  what the drivers of stages tell each other
contents    files that are kept only until they are used
display     what a pipeline prints
status      what there is to do, and how far each stage is
"""
