"""Exports of what a run made, in the forms that other tools open: one format, one module.

base          the base class of the formats
piece         a piece: its row, and what follows from it
corpus        the pieces of a run, one by one
keys          names for pieces that all tools accept
target        the folder that an export writes, whole or not at all
sorting       a file whose lines are sorted in bounded memory
entry         `splitter.export`
lhotse        lhotse: recordings, supervisions and cuts
nemo          NeMo: manifests, and tarred data sets
kaldi         Kaldi: data folders
tables        Parquet tables of pieces
metadata_csv  ljspeech, piper, coqui: a line for each piece, with its text
huggingface   Hugging Face: a folder or tables for `load_dataset`, with a card
croissant     Croissant: a description in JSON-LD, with tables of the pieces
shards        webdataset, wids, Energon: tar shards of each split, and their indices
annotation    the base class of annotation formats: a file for each recording
audacity      Audacity label tracks
raven         Raven selection tables
textgrid      Praat TextGrids
rttm          who speaks when
ctm           when each word is spoken
srt           subtitles, as SubRip
vtt           subtitles, as WebVTT
label_studio  Label Studio tasks
"""
