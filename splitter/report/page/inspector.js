// The selected row: its sound, its place in the recording, and everything known about it.

const NEAR_CUT = 1, MOST_PIECES = 400, MOST_NAMES = 24, LANE = 9;
// Larger files are not fetched to draw a waveform that nobody asked for.
const MOST_UNASKED = 5e7;

class Inspector {
  constructor(summary, rows, sounds) {
    Object.assign(this, { summary, rows, sounds, row: null, spectrum: false });
    this.place = $("inspector");
    this.player = new Player(() => this.played());
  }

  get length() {
    return this.rows.level("seconds", this.row) || this.player.audio.duration || 0;
  }

  show(row) {
    if (this.player.row !== row) this.player.stop();
    this.row = row;
    this.place.hidden = row === null;
    document.body.classList.toggle("inspecting", row !== null);
    if (row === null) return;
    const { rows } = this;
    const failed = rows.state[row] === FAILED, output = rows.output.text(row);
    const sound = rows.state[row] === OUTPUT && this.browser.isSound(row);
    const kind = isImage(output) ? "image" : sound ? "sound" : "other";
    const button = (text, title, click, more = {}) => el("button", { type: "button", title, click, ...more }, text);
    this.playButton = sound ? button("Play", "Space", () => this.toggle(row), { class: "main-play", "data-row": row }) : null;
    this.note = el("p", { class: "note sound-note", "aria-live": "polite" });
    this.place.replaceChildren(
      el("header", {},
        el("div", { class: "titles" }, el("h3", {}, output ? shortName(output) : rows.input.text(row)), el("p", { class: "note path" }, output || { 1: "no file", 2: "skipped", 3: "failed" }[rows.state[row]])),
        button("×", "Close (Esc)", () => { this.browser.select(null); this.browser.table.focus(); }, { class: "quiet close", "aria-label": "Close" })),
      failed || rows.message.text(row) ? el("p", { class: failed ? "message bad" : "message" }, failed ? `${this.cause(row)}: ${rows.message.text(row)}` : rows.message.text(row)) : "",
      rows.unread[row] ? el("p", { class: "message bad" }, rows.unread[row]) : "",
      sound ? this.soundPart() : kind === "image" ? el("img", { class: "picture", src: this.sounds.previewLink(row) || this.sounds.link(row) || "", alt: `What ${output} shows` }) : "",
      ...this.spoken(row, false),
      rows.texts[row] !== undefined ? el("pre", { class: "quote" }, rows.texts[row]) : "",
      this.note,
      this.recording(row),
      ...this.spoken(row, true),
      this.details(row));
    this.played();
    if (sound && this.spectrum) this.drawSpectrum();
    if (sound && !rows.wave(row)) this.drawFromSound(row);
  }

  // The texts of a row; a text that all outputs of a recording share belongs to the recording.
  spoken(row, ofRecording) {
    const { rows } = this, all = rows.sameInput(row);
    const isShared = (column) => all.length > 1 && all.every((one) => column.text(one) === column.text(row));
    const columns = this.summary.texts.map((name) => rows.byName.get(name));
    return columns.filter((column) => column.text(row) && isShared(column) === ofRecording).map((column) => el("p", { class: ofRecording ? "spoken shared" : "spoken" }, column.text(row)));
  }

  cause(row) {
    return this.rows.errors.text(row - this.rows.firstFailure);
  }

  // -- its sound ------------------------------------------------------------------------------------------------

  soundPart() {
    const { rows, row } = this;
    const wave = rows.wave(row);
    this.head = el("i", { class: "playhead" });
    this.canvas = el("canvas", { class: "spectrogram", role: "img", "aria-label": "Spectrogram" });
    this.hertz = el("span", { class: "hertz" });
    this.spectrumPart = el("div", { class: "spectrum", hidden: !this.spectrum }, this.canvas, this.hertz);
    this.wavePart = el("div", { class: "big-wave" }, wave ? waveImage(wave) : "");
    this.stage = el("div", { class: "stage", title: "Play from here", click: (event) => this.play(shareAt(event, this.stage) * this.length) }, this.wavePart, this.spectrumPart, this.head);
    this.spectrumButton = el("button", { type: "button", "aria-pressed": String(this.spectrum), title: "s", click: () => this.toggleSpectrum() }, "Spectrogram");
    const levels = ["rms_db", "peak_db", "silence"].map((name) => rows.level(name, row));
    const clipped = rows.level("clipped", row);
    const facts = levels[0] === null ? [] : [`RMS ${fixed(levels[0], 1)} dB`, `peak ${fixed(levels[1], 1)} dB`, `${fixed(levels[2], 0)} % silence`, ...(clipped > 0 ? [`${share(clipped, 1)} clipped`] : [])];
    return el("div", { class: "sound" }, this.stage,
      el("p", { class: "times" }, el("span", {}, "0 s"), el("span", { class: "facts" }, facts.join(" · ")), el("span", {}, clock(rows.level("seconds", row)))),
      el("div", { class: "buttons" }, this.playButton, this.spectrumButton));
  }

  // Jump by some seconds; return whether this row has a sound to jump in.
  seek(seconds) {
    const { audio } = this.player;
    if (this.row === null || this.player.row !== this.row || !audio.duration) return false;
    audio.currentTime = Math.min(audio.duration, Math.max(0, audio.currentTime + seconds));
    this.follow();
    return true;
  }

  async toggle(row) {
    if (this.row !== row) this.show(row);
    const { player } = this;
    if (player.isPlaying && player.row === row) player.stop();
    else if (this.playButton) await this.play(player.row === row && player.what === "output" && !player.audio.ended ? player.audio.currentTime : 0);
  }

  async play(from) {
    const row = this.row;
    await this.player.play(row, "output", await this.sounds.ways(row), from);
  }

  toggleSpectrum() {
    if (!this.spectrumPart || !this.spectrumPart.isConnected) return;
    this.spectrum = !this.spectrum;
    this.spectrumButton.setAttribute("aria-pressed", String(this.spectrum));
    this.spectrumPart.hidden = !this.spectrum;
    if (this.spectrum) this.drawSpectrum();
  }

  async drawSpectrum() {
    const row = this.row;
    const found = await this.sounds.decode(row);
    if (row !== this.row || !this.spectrum) return;
    if (!found) {
      this.spectrumPart.hidden = true;
      this.note.textContent = "No spectrogram here: a page opened from a disk cannot read the files next to it. Run \u201csplitter serve\u201d on the output folder to see it.";
      return;
    }
    this.spectrumPart.hidden = false;
    drawSpectrogram(this.canvas, found.sound);
    this.canvas.dataset.row = row;
    this.hertz.textContent = `${plain.format(Number((found.sound.sampleRate / 2000).toPrecision(3)))} kHz`;
    if (found.of === "copy") this.note.textContent = "This spectrogram shows the small MP3 copy in this page.";
  }

  async drawFromSound(row) {
    const found = this.rows.value("size", row) > MOST_UNASKED ? null : await this.sounds.decode(row);
    if (row !== this.row) return;
    this.wavePart.replaceChildren(found ? waveImage(waveOf(found.sound.getChannelData(0), 400)) : el("p", { class: "note no-wave" }, "Not read for this page; use --sample to read more."));
  }

  played() {
    const { player } = this;
    for (const button of document.querySelectorAll("button[data-row]")) {
      const is = player.isPlaying && player.what === "output" && button.dataset.row === String(player.row);
      button.classList.toggle("is-playing", is);
      if (button.classList.contains("main-play")) button.textContent = is ? "Pause" : "Play";
    }
    if (this.note && player.row === this.row && player.note) this.note.textContent = player.note;
    this.follow();
  }

  follow() {
    const { player } = this;
    const time = player.audio.currentTime;
    const mine = player.row === this.row && player.row !== null;
    if (this.head) {
      this.head.hidden = !(mine && player.what === "output" && (player.isPlaying || time > 0));
      if (this.length) this.head.style.left = `${Math.min(100, (100 * time) / this.length)}%`;
    }
    for (const strip of this.strips || []) {
      let at = null;
      if (mine && player.what === "source") at = time;
      else if (mine && player.what === "output" && player.isPlaying && strip.of) at = strip.of[0] + time;
      strip.head.hidden = at === null || at < strip.from || at > strip.to;
      if (at !== null) strip.head.style.left = `${(100 * (at - strip.from)) / (strip.to - strip.from)}%`;
    }
    if (player.isPlaying) requestAnimationFrame(() => this.follow());
  }

  // -- its recording ----------------------------------------------------------------------------------------------

  recording(row) {
    const { rows } = this;
    this.strips = [];
    const all = rows.sameInput(row).filter((one) => rows.span(one) && rows.state[one] !== FAILED);
    const own = rows.span(row);
    if (!all.length || !own) return "";
    const length = all.reduce((most, one) => Math.max(most, rows.span(one)[1]), Number(rows.value("source_seconds", row)) || 0);
    if (!length) return "";
    const pad = Math.max(NEAR_CUT, (own[1] - own[0]) / 3);
    const near = [Math.max(0, own[0] - pad), Math.min(length, own[1] + pad)];
    const button = (text, title, click) => el("button", { type: "button", title, click }, text);
    const source = this.sounds.source(row);
    const part = el("section", { class: "recording" },
      el("h4", {}, "In its recording"),
      el("p", { class: "note path" }, `${rows.input.text(row)} · ${clock(length)} · ${count(all.length, "output")}`),
      this.strip(all, row, 0, length, "whole"));
    if (near[1] - near[0] < 0.8 * length) part.append(this.strip(all, row, ...near, "near"));
    part.append(el("div", { class: "buttons" },
      own[0] > 0 ? button("Hear the start cut", "One second before and after", () => this.hear(row, all, own[0])) : null,
      own[1] < length - 1e-3 ? button("Hear the end cut", "One second before and after", () => this.hear(row, all, own[1])) : null,
      source ? button("Play the recording from here", "The recording itself", () => this.player.play(row, "source", [{ url: source, of: "source" }], own[0])) : null));
    return part;
  }

  strip(all, row, from, to, name) {
    const { rows } = this;
    const place = (span) => `left:${(100 * (span[0] - from)) / (to - from)}%;width:${(100 * (span[1] - span[0])) / (to - from)}%`;
    const seen = all.filter((one) => rows.span(one)[1] > from && rows.span(one)[0] < to);
    // too many to tell apart, or to be separate elements: draw one shape for all
    const many = seen.length > MOST_PIECES;
    if (many) seen.sort((one, other) => rows.span(one)[0] - rows.span(other)[0]);
    const timeOf = (event) => from + shareAt(event, strip) * (to - from);
    const strip = el("div", { class: `strip ${name}`, "data-strip": name, title: "Play from here", click: (event) => this.playAt(row, all, timeOf(event)) });
    const input = rows.input.text(row), outline = name === "whole" && Object.hasOwn(rows.sources, input) && rows.sources[input];
    const waves = el("div", { class: "waves" });
    if (outline) {
      const shape = bytesOf(outline), wave = new Int8Array(2 * shape.length);
      shape.forEach((one, at) => { wave[2 * at] = -(one >> 1); wave[2 * at + 1] = one >> 1; });
      waves.append(el("div", { class: "source-wave", style: "left:0;width:100%" }, waveImage(wave)));
    } else {
      const loudest = seen.reduce((most, one) => Math.max(most, rows.level("peak_db", one) ?? -120), -120);
      const height = (one) => Math.sqrt(10 ** (Math.max(-60, (rows.level("peak_db", one) ?? -120) - loudest) / 20));
      if (many) waves.append(el("div", { style: "left:0;width:100%" }, blocks(seen.filter((one) => rows.wave(one)).map((one) => [...rows.span(one), 1 - height(one), 1 + height(one)]), from, to, 2, "wave")));
      for (const one of many ? [] : seen) {
        const wave = rows.wave(one);
        if (wave) waves.append(el("div", { class: one === row ? "own" : "", style: place(rows.span(one)) }, waveImage(wave, (rows.level("peak_db", one) ?? 0) - loudest)));
      }
    }
    const lanes = el("div", { class: "lanes" });
    const ends = [], shapes = [];
    for (const one of seen) {
      const span = rows.span(one);
      let lane = ends.findIndex((end) => end <= span[0] + 1e-6);
      if (lane < 0) lane = Math.min(ends.length, 2);
      ends[lane] = Math.max(ends[lane] ?? 0, span[1]);
      if (many) shapes.push([...span, lane * LANE, lane * LANE + 7]);
      if (many && one !== row) continue;
      lanes.append(el("button", { type: "button", tabindex: -1, class: one === row ? "piece own" : "piece", style: `${place(span)};top:${lane * LANE}px`, "aria-label": `Select ${rows.name(one)}`, title: `${shortName(rows.name(one))}: ${clock(span[0])} to ${clock(span[1])}`, click: (event) => { event.stopPropagation(); this.browser.select(one, { scroll: true }); } }));
    }
    const height = Math.max(1, ends.length) * LANE;
    lanes.style.height = `${height}px`;
    if (many) {
      lanes.prepend(blocks(merged(shapes, (to - from) / 1000), from, to, height, "pieces"));
      lanes.title = "Select the output here";
      lanes.addEventListener("click", (event) => {
        const there = this.at(all, timeOf(event));
        event.stopPropagation();
        if (there !== undefined) this.browser.select(there, { scroll: true });
      });
    }
    const marks = el("div", { class: "marks" });
    // overlapping outputs have parts of the same label
    const labels = this.labelsOf(seen, row).map(({ text, span }) => [...span, text]).sort(([one], [other]) => one - other);
    const found = merged(labels, 1e-6).filter(([start, end]) => end > from && start < to);
    if (found.length > MOST_PIECES) marks.append(blocks(merged(found.map(([start, end]) => [start, end, 0, 17]), (to - from) / 1000), from, to, 18, "mark-shapes"));
    else for (const [start, end, text] of found) {
      marks.append(el("span", { class: "mark", style: place([start, end]), title: `${text}: ${clock(start)} to ${clock(end)}` }, text));
    }
    const own = rows.span(row);
    const head = el("i", { class: "playhead", hidden: true });
    this.strips.push({ head, from, to, of: own });
    if (marks.childElementCount > MOST_NAMES) marks.classList.add("many");
    strip.append(el("div", { class: "shade", style: place(own) }), waves, lanes, marks.childElementCount ? marks : "", head);
    return el("div", { class: "strip-part" }, strip, el("p", { class: "times" }, el("span", {}, clock(from)), el("span", {}, clock(to))));
  }

  // The labels of some rows that have the same recording as `row`.
  labelsOf(some, row) {
    const { rows } = this;
    const label = rows.byName.get("label");
    if (rows.byName.has("labels")) return some.flatMap((one) => this.labels(one));
    // a label that the whole recording has says nothing about its pieces
    if (!label || rows.sameInput(row).every((one) => label.text(one) === label.text(row))) return [];
    return some.filter((one) => label.text(one)).map((one) => ({ text: label.text(one), span: rows.span(one) }));
  }

  labels(row) {
    const { rows } = this;
    const span = rows.span(row);
    const cell = (name) => (rows.byName.has(name) ? rows.byName.get(name).text(row) : "");
    if (!cell("labels")) return [];
    const numbers = (name) => cell(name).split("|").map(Number);
    const [starts, ends] = [numbers("label_starts"), numbers("label_ends")];
    return labelsIn("labels", cell("labels")).map((text, at) => ({ text, span: [span[0] + (starts[at] || 0), span[0] + (ends[at] ?? span[1] - span[0])] }));
  }

  // The row that contains a time of the recording.
  at(all, time) {
    return all.find((one) => this.rows.span(one)[0] <= time && time < this.rows.span(one)[1]);
  }

  async playAt(row, all, time) {
    const source = this.sounds.source(row);
    if (source && await this.player.play(row, "source", [{ url: source, of: "source" }], time)) return null;
    const there = this.at(all, time);
    if (there === undefined) return null;
    if (there !== row) this.browser.select(there, { scroll: true });
    return this.play(time - this.rows.span(there)[0]);
  }

  // Play a second before and after a cut: from the recording, or from the outputs on both sides.
  async hear(row, all, time) {
    const source = this.sounds.source(row);
    if (source && await this.player.play(row, "source", [{ url: source, of: "source" }], time - NEAR_CUT, time + NEAR_CUT)) return;
    const { rows } = this;
    const before = all.find((one) => rows.span(one)[0] < time - 1e-3 && Math.abs(rows.span(one)[1] - time) < 0.05) ?? all.find((one) => rows.span(one)[0] < time - 1e-3 && rows.span(one)[1] >= time);
    const after = all.find((one) => rows.span(one)[1] > time + 1e-3 && Math.abs(rows.span(one)[0] - time) < 0.05) ?? all.find((one) => rows.span(one)[1] > time + 1e-3 && rows.span(one)[0] <= time);
    for (const [one, from, to] of [[before, time - NEAR_CUT, time], [after, time, time + NEAR_CUT]]) {
      if (one === undefined) continue;
      const start = rows.span(one)[0];
      if (!await this.player.play(one, "cut", await this.sounds.ways(one), from - start, to - start)) return this.say(row);
      if (to === time) await new Promise((done) => { this.player.audio.addEventListener("pause", done, { once: true }); });
    }
    this.note.textContent = before === undefined || after === undefined ? "No output contains the other side of this cut, and this page cannot find the recording." : "Played from the outputs on both sides of the cut.";
    return null;
  }

  say(row) {
    if (row === this.row) this.note.textContent = this.player.note;
  }

  details(row) {
    const { rows } = this;
    const list = el("dl", { class: "details" });
    const add = (title, columns) => {
      const found = columns.map((column) => [column.name, column.text(row)]).filter(([, text]) => text !== "");
      if (!found.length) return;
      list.append(el("dt", { class: "group" }, title));
      for (const [name, text] of found) list.append(el("dt", {}, name), el("dd", {}, text));
    };
    // texts are shown above
    const others = rows.columns.filter((column) => !this.summary.texts.includes(column.name) && column.name !== "output");
    add("dataset", others.filter((column) => column.dataset));
    add("metadata", others.filter((column) => !column.dataset));
    return list;
  }
}

// The distance of a click from the left of an element, as a share of its width.
function shareAt(event, element) {
  const box = element.getBoundingClientRect();
  return (event.clientX - box.left) / box.width;
}

// Draw many spans as one shape; each has a start, an end, a top and a bottom.
function blocks(spans, from, to, height, name) {
  const x = (time) => (((time - from) / (to - from)) * 1000).toFixed(2);
  const path = spans.map(([start, end, top, bottom]) => `M${x(start)} ${top.toFixed(2)}H${x(end)}V${bottom.toFixed(2)}H${x(start)}Z`).join("");
  return el("svg:svg", { class: name, viewBox: `0 0 1000 ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" }, el("svg:path", { d: path }));
}

// Join spans with the same third item, a height or a label, if they almost touch; many thin shapes make a meaningless pattern.
function merged(spans, gap) {
  const found = [], last = new Map();
  for (const span of spans) {
    const before = last.get(span[2]);
    if (before && span[0] - before[1] < gap) before[1] = Math.max(before[1], span[1]);
    else {
      last.set(span[2], span);
      found.push(span);
    }
  }
  return found;
}
