#!/usr/bin/env bash
# Makes speech/ and dataset.csv: short recordings in several formats, each with its labels.
#
# Needs espeak-ng, sox, ffmpeg and flac. The same versions of these make the same bytes.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

csv_row() {
    local field line=""
    for field in "$@"; do
        if [[ "$field" == *[\",$'\r\n']* ]]; then
            field="\"${field//\"/\"\"}\""
        fi
        line+="${line:+,}$field"
    done
    printf '%s\n' "$line"
}

# say <voice> <words per minute> <pause in seconds> <sentence>...: leaves $scratch/speech.wav, 22.05 kHz mono,
# with the pause after each sentence.
say() {
    local voice=$1 speed=$2 pause=$3 sentence parts=()
    shift 3
    for sentence in "$@"; do
        local part="$scratch/${#parts[@]}.wav"
        espeak-ng -v "$voice" -s "$speed" -w "$scratch/raw.wav" -- "$sentence"
        sox -R "$scratch/raw.wav" "$part" norm -3 pad 0 "$pause"
        parts+=("$part")
    done
    sox -R "${parts[@]}" "$scratch/speech.wav"
}

# encode <file> <sox effects...>: the format follows from the name, and from $bits for WAV.
encode() {
    local file=$1
    shift
    local source="$scratch/encode.wav"
    sox -R "$scratch/speech.wav" -b "${bits:-16}" "$source" "$@"
    case $file in
        *.flac) flac --silent --force --best --output-name="$file" "$source" ;;
        *.mp3) bitexact "$source" -c:a libmp3lame -b:a 48k "$file" ;;
        *.ogg) bitexact "$source" -c:a libvorbis -q:a 2 "$file" ;;
        *.aiff) bitexact "$source" -c:a pcm_s16be "$file" ;;
        *.wav) cp "$source" "$file" ;;
    esac
}

# No encoder version, no time stamp, no random stream number.
bitexact() {
    local source=$1
    shift
    ffmpeg -nostdin -loglevel error -y -i "$source" -map_metadata -1 -fflags +bitexact -flags:a +bitexact "$@"
}

# recording <file> <speaker> <language> <voice> <words per minute> <pause> <sox effects> <sentence>...
recording() {
    local file=$1 speaker=$2 language=$3 voice=$4 speed=$5 pause=$6 effects=$7
    shift 7
    say "$voice" "$speed" "$pause" "$@"
    # shellcheck disable=SC2086 # the effects are words
    encode "$file" $effects
    csv_row "$file" "$speaker" "$language" "$*" >>"$scratch/dataset.csv"
}

mkdir -p speech
csv_row input speaker language text >"$scratch/dataset.csv"

recording speech/greeting.wav 001 en-GB en-gb 160 0.5 "" \
    "Good morning." \
    "This is splitter, and these are its first words."

bits=24 recording speech/studio.wav 002 de-DE de+f2 170 0.3 "rate -v 44100 remix 1 1v0.7" \
    "Guten Tag!" \
    "Zwei Kanäle, vierundzwanzig Bit."

recording speech/lecture.flac 003 en-US en-us+f3 150 1.2 "" \
    "A long recording is cut into windows of equal length." \
    "Where one window ends, the next one begins, so that not a sample is lost, and none is there twice." \
    "What is left at the end is a shorter window, and it is kept, unless you say that it is to be dropped, or filled up." \
    "That is the whole idea."

recording speech/story.ogg 004 es-ES es 150 0.8 "rate -v 32000" \
    "Había una vez una biblioteca con un millón de voces." \
    "Nadie sabía de dónde venía cada una." \
    "Un día alguien empezó a escribirlo todo en una lista."

recording speech/podcast.mp3 005 en-GB-scotland en-gb-scotland 140 1.5 "rate -v 44100" \
    "Welcome back to the programme." \
    "Today we ask what happens when the power goes out in the middle of a very long night of work." \
    "Most of it is done, some of it is half done, and nobody remembers which is which." \
    "So before anything is called finished, somebody has to write down that it is." \
    "One line for each piece, on paper, in ink." \
    "In the morning you read the list, and you carry on with the rest." \
    "Thank you for listening, and good night."

recording speech/interview.aiff 006 it-IT it+f4 160 0.6 "rate -v 16000" \
    "Allora, come si chiama il file?" \
    "Non lo so ancora." \
    "Lo chiediamo al manifesto."

# A phone line: narrow, quiet, and with two seconds of silence before anybody speaks.
recording speech/telephone.wav 007 en-US en-us 165 2.0 "gain -12 highpass 300 lowpass 3400 rate -v 8000 pad 2 0" \
    "Hello?" \
    'She said, "Split it in two", and hung up.' \
    "Are you still there?"

recording "speech/L'été à Montréal.flac" 008 fr-FR fr-fr+f2 155 0.7 "rate -v 48000 channels 2" \
    "L'été, à Montréal, on ouvre les fenêtres." \
    "On entend la ville, et la ville nous entend."

mv "$scratch/dataset.csv" dataset.csv
