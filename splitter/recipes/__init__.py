"""The shipped recipes, which say what is done to each input: a new recipe is a new file here.

registry     recipes by name, and a user's own
parameters   a recipe's parameters, from its signature and docstring
spans        the pieces of a recording, in exact seconds
sound        the base classes of the recipes for sound
normalising  gains that make all pieces equally loud
chunk        windows of a fixed length
segments     cut where annotations say
silence      cut at silences
pauses       cut at pauses, and leave nothing out
speech       cut out where somebody speaks
spectrogram  pictures of windows, and their numbers
command      any program
copy         each input, unchanged
words        the example: parts of words
"""
