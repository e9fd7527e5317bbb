"""What a run made, as other tools open it: one format, one file.

base          the seam: an export of one format
piece         a piece: its row, and what follows from it
corpus        the pieces of a run, one by one
keys          names for pieces that tools take
target        the folder that an export writes, whole or not at all
sorting       lines of a file, sorted in bounded memory
entry         `splitter.export`
lhotse        lhotse: recordings, supervisions and cuts
nemo          NeMo: manifests, and tarred data sets
kaldi         Kaldi: data folders
tables        Parquet tables of pieces
metadata_csv  ljspeech, piper, coqui: a line for each piece, with its text
huggingface   Hugging Face: a folder or tables for `load_dataset`, with a card
croissant     Croissant: a description in JSON-LD, with tables of the pieces
shards        webdataset, wids, Energon: tar shards of each split, and their indices
annotation    what the formats of annotations share: a file for each recording
audacity      label tracks of Audacity
raven         selection tables of Raven
textgrid      TextGrids of Praat
rttm          who speaks when
ctm           when each word is spoken
srt           subtitles
vtt           subtitles of the web
label_studio  tasks of Label Studio
"""
