// Waveforms, spectrograms, and the one player.

const LARGEST_FFT = 1024, SPECTRUM_DB = 80, MOST_SOUNDS = 8;

// Draw quiet sound taller than it is, because it would be invisible otherwise.
function wavePath(wave, scale = 1) {
  const points = wave.length / 2;
  const up = [], down = [];
  for (let at = 0; at < points; at++) {
    const [low, high] = [(wave[2 * at] / 127) * scale, (wave[2 * at + 1] / 127) * scale];
    up.push(`${at} ${(-Math.max(high, 0.012)).toFixed(3)}`, `${at + 1} ${(-Math.max(high, 0.012)).toFixed(3)}`);
    down.push(`${at + 1} ${(-Math.min(low, -0.012)).toFixed(3)}`, `${at} ${(-Math.min(low, -0.012)).toFixed(3)}`);
  }
  const back = [];
  for (let at = down.length - 2; at >= 0; at -= 2) back.push(down[at], down[at + 1]);
  return `M${up.join("L")}L${back.join("L")}Z`;
}

function waveImage(wave, peakDb) {
  const points = wave.length / 2;
  const scale = peakDb === undefined ? 1 : Math.sqrt(10 ** (Math.max(-60, peakDb) / 20));
  return el("svg:svg", { class: "wave", viewBox: `0 -1 ${points} 2`, preserveAspectRatio: "none", "aria-hidden": "true" },
    el("svg:path", { d: wavePath(wave, scale) }));
}

// Compute a waveform from samples, for an output that was not measured.
function waveOf(samples, points) {
  const wave = new Int8Array(2 * points);
  let most = 1e-9;
  for (let at = 0; at < samples.length; at++) most = Math.max(most, Math.abs(samples[at]));
  for (let point = 0; point < points; point++) {
    const start = Math.floor((point * samples.length) / points), stop = Math.max(start + 1, Math.floor(((point + 1) * samples.length) / points));
    let low = 1, high = -1;
    for (let at = start; at < stop && at < samples.length; at++) {
      low = Math.min(low, samples[at]);
      high = Math.max(high, samples[at]);
    }
    wave[2 * point] = Math.round((low / most) * 127);
    wave[2 * point + 1] = Math.round((high / most) * 127);
  }
  return wave;
}

// -- where sound comes from -------------------------------------------------------------------------------------

// A page opened from a disk may play the files next to it, but not read them.
const isServed = location.protocol.startsWith("http");
const server = document.documentElement.dataset.server || "";
const inShard = /^(shards\/shard-\d{6,}(?:-\d+)?\.(tar|parquet))\/(.+)$/s;

class Sounds {
  constructor(summary, rows) {
    Object.assign(this, { summary, rows, previews: null, decoded: new Map(), parts: new Map() });
  }

  preview(row) {
    this.previews ??= JSON.parse($("previews").textContent);
    return this.previews[row] || null;
  }

  link(row) {
    const output = this.rows.output.text(row);
    if (!output) return null;
    if (!server && (inShard.test(output) || this.summary.virtual || this.summary.folder === null)) return null;
    return `./${encoded(server ? output : this.summary.folder + output)}`;
  }

  // Fetch an output from a tar shard: in a bucket, a page can request a range of a file next to it.
  async part(row) {
    const [, shard, kind] = this.rows.output.text(row).match(inShard) || [];
    const [start, size] = [this.rows.value("shard_offset", row), this.rows.value("size", row)];
    if (!isServed || this.summary.folder === null || kind !== "tar" || start === null || !size) return null;
    const answer = await fetch(`./${encoded(this.summary.folder + shard)}`, { headers: { Range: `bytes=${start}-${start + size - 1}` } });
    return answer.status === 206 ? answer.arrayBuffer() : null;
  }

  // The object URL of an output in a tar shard. The output is fetched once, and the last few URLs are kept.
  partLink(row) {
    if (!this.parts.has(row)) {
      const type = mimeOf(this.rows.output.text(row));
      this.parts.set(row, this.part(row).then((part) => part && URL.createObjectURL(new Blob([part], { type }))).catch(() => null));
      this.parts.get(row).then((url) => url || this.parts.delete(row));
    }
    if (this.parts.size > MOST_SOUNDS) {
      const [first, link] = this.parts.entries().next().value;
      this.parts.delete(first);
      link.then((url) => URL.revokeObjectURL(url));
    }
    return this.parts.get(row);
  }

  source(row) {
    const input = this.rows.input.text(row);
    if (!input || input.includes("://")) return null;
    // send a path that is not below the root as one encoded name, because the browser would resolve it otherwise
    const below = !/^\/|(^|\/)(\.{0,2})(\/|$)/.test(input);
    if (server) return server === "sources" ? `./.sources/${below ? encoded(input) : encoded(input).replaceAll("/", "%2F")}` : null;
    if (this.summary.sources === null) return null;
    if (input.startsWith("/")) return isServed ? null : `file://${encoded(input)}`;
    return `./${encoded(this.summary.sources + input)}`;
  }

  previewLink(row) {
    const found = this.preview(row);
    return found ? `data:${found[0]};base64,${found[1]}` : null;
  }

  // The sources to try for a sound, the real output first.
  async ways(row) {
    const ways = [];
    const link = this.link(row) || await this.partLink(row);
    if (link) ways.push({ url: link, of: "output" });
    const copy = this.previewLink(row);
    if (copy) ways.push({ url: copy, of: "copy" });
    return ways;
  }

  // Decode a sound. Return null if no source can be fetched and decoded; the next call tries again.
  async decode(row) {
    if (!this.decoded.has(row)) {
      const found = await this.decodedNow(row).catch(() => null);
      if (!found) return null;
      this.decoded.set(row, found);
    }
    if (this.decoded.size > MOST_SOUNDS) this.decoded.delete(this.decoded.keys().next().value);
    return this.decoded.get(row);
  }

  async decodedNow(row) {
    const rate = Math.min(96000, Math.max(8000, this.rows.value("sample_rate", row) || 44100));
    const context = new OfflineAudioContext(1, 1, rate);
    if (isServed) {
      try {
        const link = this.link(row);
        const answer = link ? await fetch(link) : null;
        const content = answer ? (answer.ok ? await answer.arrayBuffer() : null) : await this.part(row);
        if (content) return { sound: await context.decodeAudioData(content), of: "output" };
      } catch { /* the browser cannot decode this format: use the copy */ }
    }
    const copy = this.preview(row);
    if (!copy) return null;
    const small = new OfflineAudioContext(1, 1, Math.min(rate, 32000));
    return { sound: await small.decodeAudioData(bytesOf(copy[1]).buffer), of: "copy" };
  }
}

const mimeOf = (name) => ({ wav: "audio/wav", flac: "audio/flac", mp3: "audio/mpeg", ogg: "audio/ogg", opus: "audio/ogg", m4a: "audio/mp4" })[name.split(".").pop().toLowerCase()] || "";

class Player {
  constructor(changed) {
    Object.assign(this, { audio: new Audio(), changed, row: null, what: "", note: "" });
    this.audio.preload = "auto";
    for (const event of ["play", "pause", "ended"]) this.audio.addEventListener(event, () => changed());
  }

  get isPlaying() {
    return !this.audio.paused && !this.audio.ended;
  }

  stop() {
    this.audio.pause();
  }

  // Play the first of the sources that the browser can play, from one time to another.
  async play(row, what, ways, from = 0, to = null) {
    const turn = (this.turn = (this.turn || 0) + 1);
    this.audio.pause();
    Object.assign(this, { row, what, note: "" });
    for (const way of ways) {
      try {
        if (this.audio.src !== new URL(way.url, location.href).href) this.audio.src = way.url;
        await this.playSpan(from, to, turn);
        if (way.of === "copy") this.note = "Playing the small MP3 copy in this page.";
        this.changed();
        return true;
      } catch (error) {
        if (turn !== this.turn || error.name === "AbortError") return false;
      }
    }
    this.what = "";
    this.note = noSound(ways);
    this.changed();
    return false;
  }

  async playSpan(from, to, turn) {
    if (this.audio.readyState < 1) {
      await new Promise((done, fail) => {
        this.audio.addEventListener("loadedmetadata", done, { once: true });
        this.audio.addEventListener("error", () => fail(new Error("cannot be played")), { once: true });
      });
    }
    if (turn !== this.turn) throw new DOMException("another was selected", "AbortError");
    this.audio.currentTime = Math.max(0, from);
    await this.audio.play();
    if (to === null) return;
    const watch = () => {
      if (turn !== this.turn) return;
      if (this.audio.currentTime >= to) this.audio.pause();
      else if (!this.audio.paused) requestAnimationFrame(watch);
    };
    requestAnimationFrame(watch);
  }
}

function noSound(ways) {
  if (!ways.length && !summary.shards) return "This page cannot find the outputs, and it has no copy of this one.";
  if (ways.length) return "The browser cannot play this: the file is missing, or its format is not supported.";
  const where = summary.virtual ? "a virtual piece" : "in a shard";
  return `This output is ${where}: run \u201csplitter serve\u201d on the output folder to play it.`;
}

// -- spectrogram ------------------------------------------------------------------------------------------------

function fft(real, imaginary) {
  const size = real.length;
  for (let at = 1, other = 0; at < size; at++) {
    let bit = size >> 1;
    for (; other & bit; bit >>= 1) other ^= bit;
    other ^= bit;
    if (at < other) {
      [real[at], real[other]] = [real[other], real[at]];
      [imaginary[at], imaginary[other]] = [imaginary[other], imaginary[at]];
    }
  }
  for (let length = 2; length <= size; length <<= 1) {
    const angle = (-2 * Math.PI) / length, half = length / 2;
    for (let at = 0; at < half; at++) {
      const cos = Math.cos(angle * at), sin = Math.sin(angle * at);
      for (let start = at; start < size; start += length) {
        const other = start + half;
        const re = real[other] * cos - imaginary[other] * sin, im = real[other] * sin + imaginary[other] * cos;
        real[other] = real[start] - re;
        imaginary[other] = imaginary[start] - im;
        real[start] += re;
        imaginary[start] += im;
      }
    }
  }
}

const COLOURS = [[8, 6, 22], [50, 18, 90], [115, 33, 110], [178, 50, 92], [229, 92, 48], [251, 164, 38], [252, 236, 170]];

function colour(share) {
  const place = Math.min(0.9999, Math.max(0, share)) * (COLOURS.length - 1);
  const at = Math.floor(place), part = place - at;
  return COLOURS[at].map((one, channel) => one + (COLOURS[at + 1][channel] - one) * part);
}

function drawSpectrogram(canvas, sound, mostColumns = 900) {
  const samples = sound.getChannelData(0);
  const size = sound.sampleRate <= 12000 ? LARGEST_FFT / 2 : LARGEST_FFT;
  const columns = Math.min(mostColumns, Math.max(64, Math.ceil(samples.length / (size / 8)))), rows = size / 2;
  const powers = new Float32Array(columns * rows);
  const window_ = Float32Array.from({ length: size }, (_, at) => 0.5 - 0.5 * Math.cos((2 * Math.PI * at) / size));
  const real = new Float32Array(size), imaginary = new Float32Array(size);
  let most = 1e-12;
  for (let column = 0; column < columns; column++) {
    const start = Math.round(((column + 0.5) * samples.length) / columns - size / 2);
    for (let at = 0; at < size; at++) {
      real[at] = (samples[start + at] || 0) * window_[at];
      imaginary[at] = 0;
    }
    fft(real, imaginary);
    for (let row = 0; row < rows; row++) {
      const power = real[row] * real[row] + imaginary[row] * imaginary[row];
      powers[column * rows + row] = power;
      if (power > most) most = power;
    }
  }
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let column = 0; column < columns; column++) {
    for (let row = 0; row < rows; row++) {
      const level = (10 * Math.log10(powers[column * rows + row] / most + 1e-12)) / SPECTRUM_DB + 1;
      const place = 4 * ((rows - 1 - row) * columns + column);
      const [red, green, blue] = colour(level);
      image.data.set([red, green, blue, 255], place);
    }
  }
  context.putImageData(image, 0, 0);
}
