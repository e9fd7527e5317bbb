// The outputs as a gallery of pictures: images, and spectrograms of sound.

const TILE = 200, SMALL_TILE = 140, TILE_TEXT = 54;
// Larger files are not fetched for a small picture, and no more pictures than this are kept.
const MOST_TILE_BYTES = 5e6, MOST_KEPT = 80, TILE_COLUMNS = 180;

class Gallery {
  constructor(browser) {
    Object.assign(this, { browser, across: 1, step: TILE, kept: new Map(), asked: [], busy: false });
  }

  // Compute how many tiles fit next to each other, and return their height.
  fit() {
    const width = this.browser.table.clientWidth - 16;
    this.across = Math.max(1, Math.floor(width / (width < 600 ? SMALL_TILE : TILE)));
    this.step = Math.round(0.62 * (width / this.across) + TILE_TEXT);
    return this.step;
  }

  line(at) {
    const some = this.browser.view.slice(at * this.across, (at + 1) * this.across);
    return el("div", { role: "row", class: "tiles", "aria-rowindex": at + 2, style: `top:${at * this.step}px;height:${this.step}px;grid-template-columns:repeat(${this.across},minmax(0,1fr))` }, ...some.map((row) => this.tile(row)));
  }

  tile(row) {
    const { browser } = this, { rows } = browser, name = rows.name(row);
    const labels = browser.labelsOf(row, browser.wanted);
    return el("div", { role: "gridcell", id: `row-${row}`, class: `tile ${["", "empty-row", "skipped", "failed"][rows.state[row]]}`, title: [name, labels].join("\n"), "aria-selected": String(row === browser.selected), click: () => browser.select(row) },
      this.picture(row), browser.selection.box(row), browser.playButton(row),
      el("b", {}, labels || shortName(name)), el("small", {}, name));
  }

  hasPicture(row) {
    const { rows } = this.browser;
    return isImage(rows.output.text(row)) || this.browser.isSound(row) || rows.texts[row] !== undefined;
  }

  picture(row) {
    const { browser } = this, { rows, sounds } = browser, output = rows.output.text(row);
    const place = el("div", { class: "face" });
    if (rows.state[row] !== OUTPUT) place.append(el("span", { class: "note" }, rows.message.text(row) || "no file"));
    else if (isImage(output)) place.append(el("img", { src: sounds.previewLink(row) || sounds.link(row) || "", alt: "", loading: "lazy" }));
    else if (rows.texts[row] !== undefined) place.append(el("span", { class: "begins" }, rows.texts[row]));
    else if (!this.hasPicture(row)) place.append(el("span", { class: "note" }, output.split(".").pop()));
    else if (this.kept.has(row)) place.append(this.kept.get(row));
    else {
      const wave = rows.wave(row);
      if (wave) place.append(waveImage(wave, rows.level("peak_db", row)));
      if ((rows.value("size", row) ?? 0) <= MOST_TILE_BYTES) {
        this.asked.push([row, place]);
        if (!this.busy) this.work();
      }
    }
    return place;
  }

  // Draw one after the other, those requested last first; skip those that are out of sight by then.
  async work() {
    this.busy = true;
    while (this.asked.length) {
      await new Promise(requestAnimationFrame);
      const [row, place] = this.asked.pop();
      if (!place.isConnected) continue;
      const found = await this.browser.sounds.decode(row);
      if (!found) continue;
      const canvas = el("canvas", { role: "img", "aria-label": "Spectrogram" });
      drawSpectrogram(canvas, found.sound, TILE_COLUMNS);
      this.kept.set(row, canvas);
      if (this.kept.size > MOST_KEPT) this.kept.delete(this.kept.keys().next().value);
      if (place.isConnected) place.replaceChildren(canvas);
    }
    this.busy = false;
  }
}
