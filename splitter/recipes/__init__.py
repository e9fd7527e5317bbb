"""Recipes: what is done to each input. A new recipe is a new file here.

registry     recipes by name, and a user's own
parameters   a recipe's parameters, from its signature and docstring
sound        what the recipes for sound share
normalising  pieces that are all equally loud
chunk        windows of a fixed length
segments     cut where annotations say
silence      cut at silences
pauses       cut at pauses, and leave nothing out
speech       cut where somebody speaks
spectrogram  pictures of windows, and their numbers
command      any program
copy         each input as it is
words        the example: parts of words
"""
