"""Files of other tools -> inputs, columns and times. A new tool is a new file here, named in the registry.

base          the seam `Dialect`
source        which dialect a DATASET is written in, and its rows
times         times as exact text
files         lines and JSON of untrusted files, compressed or not, within limits
lhotse        cuts, recordings, supervisions
nemo          manifests of NeMo
kaldi         data folders of Kaldi and ESPnet
commonvoice   tables of Common Voice
ljspeech      metadata.csv of LJSpeech and Piper
label_studio  exports of Label Studio
huggingface   datasets saved to disk by Hugging Face
"""
