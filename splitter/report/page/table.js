// The table: filtered, sorted, and drawn only where it is visible.

const LEAST = { wave: 90, image: 72, name: 190, text: 140, number: 68, bytes: 76, label: 84 };
const AROUND = 8, PRINTED = 40;
// The height of a row with two lines, and with a third one for labels that have no column.
const ROW = 48, TALL_ROW = 64;

class Browser {
  constructor(summary, rows, sounds, chosen) {
    Object.assign(this, { summary, rows, sounds, chosen, gallery: null, step: ROW, below: [] });
    this.filter = { text: "", status: "all", column: "", value: null, ranges: new Map() };
    this.sort = { column: null, down: false };
    this.selected = null;
    this.drawn = new Map();
    this.listeners = [];
    this.selection = new Selection(this);
    this.wanted = this.columnsWanted();
    this.columns = [];
    this.view = [];
    this.table = $("table");
    this.body = $("body");
    this.table.style.setProperty("--all", `${rows.count * TALL_ROW + 120}px`);
    this.fit();
    this.tools();
    this.table.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.fit()).observe(this.table);
    this.table.addEventListener("keydown", (event) => this.key(event));
    this.apply();
  }

  columnsWanted() {
    const { rows, summary } = this;
    const sound = summary.clipping.measured > 0;
    const shown = [];
    const number = (name, title, digits, longest = 0) => {
      const least = Math.min(150, Math.max(LEAST.number, Math.ceil(Math.max(title.length, longest) * 7.5)));
      shown.push({ name, title, kind: "number", digits, least, width: `${least + 8}px` });
    };
    if (sound) shown.push({ name: "", title: "", kind: "wave", width: "minmax(90px, 0.9fr)" });
    else if (summary.kinds.image) shown.push({ name: "", title: "", kind: "image", width: "72px" });
    shown.push({ name: "output", title: "Output", kind: "name", width: "minmax(150px, 1.4fr)" });
    if (!sound && summary.kinds.text) shown.push({ name: "", title: "Begins with", kind: "text", width: "minmax(120px, 2fr)" });
    for (const name of summary.texts.slice(0, 2)) shown.push({ name, title: name, kind: "text", width: "minmax(120px, 1.6fr)" });
    if (sound || summary.numbers.seconds !== undefined) number("#seconds", "Length", 2);
    if (sound) {
      number("#rms_db", "RMS dB", 1);
      number("#peak_db", "Peak dB", 1);
      number("#silence", "Silence %", 0);
    } else {
      shown.push({ name: "size", title: "Size", kind: "bytes", width: "84px" });
      for (const plot of summary.plots) if (rows.byName.has(plot.column) && !["size", "seconds"].includes(plot.column)) number(plot.column, plot.column, 3, Math.max(...[plot.least, plot.most].map((one) => plain.format(one).length)) + 1);
    }
    const labels = summary.labels.filter(({ column }) => rows.byName.has(column) && !/^(source_.*|sample_rate|channels)$/.test(column));
    for (const { column: name, values } of labels.slice(0, 3)) {
      const least = Math.min(150, Math.max(LEAST.label, 16 + 7.5 * Math.max(name.length, ...values.slice(0, 100).map((one) => one.value.length))));
      shown.push({ name, title: name, kind: "label", least, width: `minmax(${least}px, 0.6fr)` });
    }
    return shown;
  }

  // If there is little room, leave out columns, but never the name: first labels, which move below the name.
  fit() {
    const shown = [...this.wanted];
    const width = () => shown.reduce((sum, one) => sum + (one.least || LEAST[one.kind]) + 12, 66 + MARK);
    for (const kind of ["label", "number", "wave", "text", "bytes", "image"]) {
      for (let at = shown.length - 1; at > 0 && width() > this.table.clientWidth; at--) {
        const last = kind === "number" && shown.filter((one) => one.kind === kind).length === 1;
        if (shown[at].kind === kind && !last) shown.splice(at, 1);
      }
      if (kind === "wave" && width() > this.table.clientWidth && shown[0].kind === kind) shown.shift();
    }
    if (shown.length === this.columns.length) {
      if (this.gallery) this.redraw();
      else this.draw();
      return;
    }
    this.columns = shown;
    this.below = this.wanted.filter((one) => isLabel(one) && !shown.includes(one));
    this.head();
    this.order();
  }

  head() {
    this.table.style.setProperty("--columns", `var(--mark) ${this.summary.kinds.sound ? "var(--play)" : "0px"} ${this.columns.map((one) => one.width).join(" ")}`);
    this.table.setAttribute("aria-colcount", this.columns.length + 2);
    $("head").replaceChildren(el("span", { role: "columnheader", class: "cell tick" }, this.selection.all), el("span", { role: "columnheader", class: "cell", "aria-label": "Play" }), ...this.columns.map((one) => {
      const cell = el("span", { role: "columnheader", class: `cell ${one.kind}`, "aria-sort": "none" });
      if (one.name) cell.append(el("button", { type: "button", click: () => this.sortBy(one.name), title: `Sort by ${one.title}` }, one.title));
      else if (one.title) cell.append(one.title);
      else cell.setAttribute("aria-label", { wave: "Waveform", image: "Image" }[one.kind]);
      return cell;
    }));
  }

  tools() {
    const { rows, summary, filter } = this;
    const options = [["all", "All rows"], ["outputs", "Outputs"]];
    if (summary.numbers.skipped) options.push(["skipped", "Skipped"]);
    if (rows.causes.length) options.push(["failed", "Failed"]);
    if (summary.clipping.clipped) options.push(["clipped", "Clipped"]);
    if (Object.keys(rows.unread).length) options.push(["unread", "With a fault"]);
    $("status").append(...options.map(([value, text]) => el("option", { value }, text)));
    $("status").addEventListener("change", () => { filter.status = $("status").value; this.apply(); });
    $("search").addEventListener("input", () => {
      clearTimeout(this.wait);
      this.wait = setTimeout(() => { filter.text = $("search").value.trim().toLowerCase(); this.apply(); }, rows.count > 20000 ? 150 : 0);
    });
    const labels = summary.labels.filter((one) => rows.byName.has(one.column));
    $("label-column").hidden = !labels.length;
    $("label-column").append(el("option", { value: "" }, "Any label"), ...labels.map((one) => el("option", { value: one.column }, one.column)));
    $("label-column").addEventListener("change", () => this.chooseLabel($("label-column").value, null));
    $("label-value").addEventListener("change", () => this.chooseLabel(filter.column, $("label-value").selectedIndex ? $("label-value").value : null));
    $("next-failure").hidden = !rows.causes.length;
    $("next-failure").addEventListener("click", () => this.nextFailure());
    $("clear").addEventListener("click", () => this.clear());
    $("as-table").addEventListener("click", () => this.showAs(false));
    $("as-gallery").addEventListener("click", () => this.showAs(true));
  }

  clear() {
    // a search that is still waiting belongs to the filters before
    clearTimeout(this.wait);
    Object.assign(this.filter, { text: "", status: "all", column: "", value: null });
    this.filter.ranges.clear();
    $("search").value = "";
    $("status").value = "all";
    this.chooseLabel("", null);
  }

  chooseLabel(column, value) {
    Object.assign(this.filter, { column, value });
    $("label-column").value = column;
    const values = $("label-value");
    values.hidden = !column;
    const known = this.summary.labels.find((one) => one.column === column);
    values.replaceChildren(el("option", { value: "" }, "any value"), ...(known ? known.values : []).map((one) => el("option", { value: one.value }, one.value === "" ? "(none)" : one.value)));
    if (value !== null && known) values.selectedIndex = 1 + known.values.findIndex((one) => one.value === value);
    this.apply();
  }

  toggleLabel(column, value) {
    const same = this.filter.column === column && this.filter.value === value;
    this.chooseLabel(same ? "" : column, same ? null : value);
  }

  chooseBars(histogram, first, last) {
    this.addBars(histogram, first, last);
    this.apply();
  }

  addBars(histogram, first, last) {
    const { title, unit, edges } = histogram.plot;
    const name = this.columnOf(histogram.plot);
    const has = (value) => {
      const bin = histogram.bin(value);
      return bin >= first && bin <= last;
    };
    if (name) this.filter.ranges.set(name, { title, unit, low: edges[first], high: edges[last + 1], has, isLast: last === edges.length - 2 });
  }

  columnOf(plot) {
    if (this.rows.byName.has(`#${plot.column}`)) return `#${plot.column}`;
    return this.rows.byName.has(plot.column) ? plot.column : null;
  }

  // Whether to leave out outputs that have no picture, because this is the gallery.
  get leavesOut() {
    const { image, sound, text, other } = this.summary.kinds;
    return Boolean(this.gallery && other && (image || sound || text));
  }

  get isFiltered() {
    const { text, status, value, ranges } = this.filter;
    return Boolean(text || status !== "all" || value !== null || ranges.size);
  }

  // -- which rows ---------------------------------------------------------------------------------------------

  apply() {
    const { rows, filter } = this;
    const tests = [];
    if (filter.text) {
      const includes = (value) => value !== null && String(value).toLowerCase().includes(filter.text);
      const has = [...rows.columns, rows.message].map((column) => column.each(includes));
      const error = rows.errors.each(includes);
      const also = new Set([rows.texts, rows.unread].flatMap((texts) => Object.keys(texts).filter((row) => includes(texts[row]))).map(Number));
      tests.push((row) => has.some((one) => one(row)) || also.has(row) || (row >= rows.firstFailure && error(row - rows.firstFailure)));
    }
    const wanted = { outputs: OUTPUT, skipped: SKIPPED, failed: FAILED }[filter.status];
    if (wanted !== undefined) tests.push((row) => rows.state[row] === wanted);
    if (filter.status === "clipped") tests.push((row) => rows.level("clipped", row) > 0);
    if (filter.status === "unread") tests.push((row) => row in rows.unread);
    if (filter.column && filter.value !== null) {
      const of = (value) => labelsIn(filter.column, value === null ? "" : String(value)).includes(filter.value);
      tests.push(rows.byName.get(filter.column).each(of));
    }
    for (const [name, { has }] of filter.ranges) {
      tests.push(rows.byName.get(name).each((value) => value !== null && has(value)));
    }
    if (this.leavesOut) tests.push((row) => rows.state[row] !== OUTPUT || this.gallery.hasPicture(row));
    const found = [];
    for (let row = 0; row < rows.count; row++) if (tests.every((test) => test(row))) found.push(row);
    this.view = found;
    this.order();
    this.say();
    this.selection.say();
    for (const listener of this.listeners) listener(this.isFiltered ? this.view : null, filter);
  }

  sortBy(name) {
    const { sort } = this;
    if (sort.column !== name) Object.assign(sort, { column: name, down: name.startsWith("#") && name !== "#seconds" });
    else if (sort.down === (name.startsWith("#") && name !== "#seconds")) sort.down = !sort.down;
    else sort.column = null;
    this.view.sort((one, other) => one - other);
    this.order();
  }

  order() {
    const { column: name, down } = this.sort;
    if (name) {
      const column = this.rows.byName.get(name);
      const ordered = [...new Set(column.values)].filter((one) => one !== null).sort(column.number ? (one, other) => one - other : undefined);
      const ranks = new Map(ordered.map((value, rank) => [value, down ? -rank : rank]));
      const rank = column.each((value) => (value === null || value === "" ? Infinity : ranks.get(value)));
      this.view.sort((one, other) => {
        const [a, b] = [rank(one), rank(other)];
        return a === b ? one - other : a < b ? -1 : 1;
      });
    }
    [...$("head").children].slice(2).forEach((cell, at) => {
      const is = this.columns[at].name && this.columns[at].name === name;
      cell.setAttribute("aria-sort", is ? (down ? "descending" : "ascending") : "none");
    });
    this.redraw();
    this.selection.note();
  }

  say() {
    const { rows, summary, view, filter } = this;
    $("shown").textContent = view.length === rows.count ? count(view.length, "row") : `${plain.format(view.length)} of ${count(rows.count, "row")}`;
    if (rows.count < summary.rows_total && view.length === rows.count) $("shown").textContent += ` listed, of ${plain.format(summary.rows_total)}`;
    const failed = view.filter((row) => rows.state[row] === FAILED).length;
    if (failed && failed < view.length) $("shown").textContent += `, ${plain.format(failed)} failed`;
    $("empty").hidden = view.length > 0;
    $("nothing").textContent = rows.count ? "No row matches these filters." : "The manifest has no rows yet.";
    $("clear").hidden = !rows.count;
    this.tellPrinted();
    $("chips").replaceChildren(...[...filter.ranges].map(([name, { title, unit, low, high }]) =>
      el("button", { type: "button", class: "chip", title: "Remove this filter", click: () => { filter.ranges.delete(name); this.apply(); } },
        `${title} ${withUnit(low, unit)} to ${withUnit(high, unit)} ×`)));
    this.table.setAttribute("aria-rowcount", view.length + 1);
  }

  // Show the outputs as a table, or as a gallery of pictures.
  showAs(gallery) {
    $("as-table").setAttribute("aria-pressed", String(!gallery));
    $("as-gallery").setAttribute("aria-pressed", String(gallery));
    if (gallery === Boolean(this.gallery)) return;
    this.gallery = gallery ? new Gallery(this) : null;
    this.apply();
    if (this.selected !== null) this.show(this.selected);
    if (gallery && !isServed && this.summary.kinds.sound) this.selection.tell("Opened from a disk, this page draws spectrograms of the copies in it; with \u201csplitter serve\u201d it draws all of them.");
    else this.selection.tell("");
    this.selection.note();
  }

  // -- what is seen -------------------------------------------------------------------------------------------

  redraw() {
    this.drawn.forEach((element) => element.remove());
    this.drawn.clear();
    this.step = this.gallery ? this.gallery.fit() : this.below.length ? TALL_ROW : ROW;
    this.table.style.setProperty("--row", `${this.step}px`);
    this.table.classList.toggle("as-gallery", Boolean(this.gallery));
    this.body.style.height = `${Math.ceil(this.view.length / this.across) * this.step}px`;
    this.draw();
  }

  // How many outputs are next to each other in a row.
  get across() {
    return this.gallery ? this.gallery.across : 1;
  }

  draw() {
    let first = 0, last = Math.ceil(Math.min(PRINTED, this.view.length) / this.across);
    if (!this.printing) {
      const { scrollTop, clientHeight } = this.table, around = this.gallery ? 1 : AROUND;
      first = Math.max(0, Math.floor(scrollTop / this.step) - around);
      last = Math.min(Math.ceil(this.view.length / this.across), Math.ceil((scrollTop + clientHeight) / this.step) + around);
    }
    for (const [at, element] of this.drawn) {
      if (at < first || at >= last) {
        element.remove();
        this.drawn.delete(at);
      }
    }
    for (let at = first; at < last; at++) {
      if (this.drawn.has(at)) continue;
      const element = this.gallery ? this.gallery.line(at) : this.row(at, this.view[at]);
      this.drawn.set(at, element);
      this.body.append(element);
    }
  }

  row(at, row) {
    const { rows } = this;
    const state = rows.state[row];
    const element = el("div", {
      role: "row", id: `row-${row}`, class: `row ${["", "empty-row", "skipped", "failed"][state]}`, "aria-rowindex": at + 2, "aria-selected": String(row === this.selected),
      style: `top:${at * this.step}px`, click: () => this.select(row),
    });
    element.append(el("span", { role: "gridcell", class: "cell tick" }, this.selection.box(row)), el("span", { role: "gridcell", class: "cell" }, this.playButton(row)));
    for (const column of this.columns) element.append(this.cell(column, row, state));
    return element;
  }

  // The values of a row in some columns: its labels, then its split, then its texts.
  labelsOf(row, columns) {
    const rank = ({ kind, name }) => (kind === "text" ? 2 : name === "split" ? 1 : 0);
    const some = columns.filter(isLabel).sort((one, other) => rank(one) - rank(other));
    return some.map(({ name }) => shownLabel(this.rows.byName.get(name).text(row))).filter(Boolean).join(" · ");
  }

  playButton(row) {
    if (this.rows.state[row] !== OUTPUT || !this.isSound(row)) return null;
    return el("button", { type: "button", class: "play", tabindex: -1, "aria-label": `Play ${this.rows.name(row)}`, "data-row": row, click: (event) => { event.stopPropagation(); this.select(row); this.chosen.toggle(row); } });
  }

  isSound(row) {
    return this.rows.waveOf.has(row) || Boolean(mimeOf(this.rows.output.text(row)));
  }

  cell(column, row, state) {
    const { rows } = this;
    const cell = el("span", { role: "gridcell", class: `cell ${column.kind}` });
    if (column.kind === "wave") {
      const wave = rows.wave(row);
      if (wave) cell.append(waveImage(wave, rows.level("peak_db", row)));
    } else if (column.kind === "image") {
      if (state === OUTPUT && isImage(rows.output.text(row))) cell.append(el("img", { src: this.sounds.previewLink(row) || this.sounds.link(row), alt: "", loading: "lazy" }));
    } else if (column.kind === "text") {
      cell.append(column.name ? rows.byName.get(column.name).text(row) : rows.texts[row] ?? "");
      cell.title = cell.textContent;
    }
    else if (column.kind === "name") {
      const output = rows.output.text(row), input = rows.input.text(row);
      const message = state >= SKIPPED ? rows.message.text(row) : rows.unread[row] || "";
      cell.append(el("b", { title: output || input }, shortName(output) || input));
      cell.append(el("small", { title: message || input }, message || (output ? input : "no file")));
      const below = this.labelsOf(row, this.below);
      if (below) cell.append(el("small", { class: "below", title: below }, below));
    } else {
      const value = rows.value(column.name, row);
      if (column.kind === "bytes") cell.append(value ? bytes(value) : "");
      else if (column.kind === "number") cell.append(typeof value !== "number" ? "" : Number.isInteger(value) && !column.name.startsWith("#") ? minus(plain.format(value)) : fixed(value, column.digits));
      else cell.append(shownLabel(rows.byName.get(column.name).text(row)));
      if (column.name === "#peak_db" && rows.level("clipped", row) > 0) cell.classList.add("warn");
      if (column.kind === "label") cell.title = cell.textContent;
    }
    return cell;
  }

  select(row, { scroll = false } = {}) {
    if (this.selected !== null) $(`row-${this.selected}`)?.setAttribute("aria-selected", "false");
    this.selected = row;
    if (row === null) this.table.removeAttribute("aria-activedescendant");
    else {
      $(`row-${row}`)?.setAttribute("aria-selected", "true");
      this.table.setAttribute("aria-activedescendant", `row-${row}`);
    }
    this.chosen.show(row);
    if (scroll) this.show(row);
    this.selection.note();
  }

  show(row) {
    const at = this.view.indexOf(row);
    if (at < 0) return;
    // on small screens, the inspector covers the lower part of the table
    const sheet = getComputedStyle($("inspector")).position === "fixed" ? $("inspector").getBoundingClientRect().top : Infinity;
    const box = this.table.getBoundingClientRect();
    const covered = box.top < sheet - 2 * ROW ? Math.max(0, box.bottom - sheet) : 0;
    const top = Math.floor(at / this.across) * this.step, height = this.table.clientHeight - (this.gallery ? 0 : $("head").offsetHeight) - covered;
    if (top < this.table.scrollTop) this.table.scrollTop = top;
    else if (top + this.step > this.table.scrollTop + height) this.table.scrollTop = top + this.step - height;
    this.draw();
  }

  move(steps) {
    if (!this.view.length) return;
    const at = this.view.indexOf(this.selected);
    const next = at < 0 ? 0 : Math.min(this.view.length - 1, Math.max(0, at + steps));
    this.select(this.view[next], { scroll: true });
  }

  key(event) {
    const { across } = this, page = across * Math.max(1, Math.floor(this.table.clientHeight / this.step) - 2);
    const beside = this.gallery ? { ArrowLeft: -1, ArrowRight: 1 } : {};
    const steps = { ArrowDown: across, ArrowUp: -across, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity, ...beside }[event.key];
    if (steps !== undefined) this.move(steps);
    else if (event.key === "Enter" && event.target === this.table && this.selected !== null) this.chosen.toggle(this.selected);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  reveal(row) {
    if (!this.view.includes(row)) this.clear();
    this.goTo(row);
  }

  goTo(row) {
    // on a phone, there is only room for the table and the inspector
    (matchMedia("(max-width: 720px)").matches ? this.table : $("outputs")).scrollIntoView({ block: "start", behavior: "instant" });
    this.select(row, { scroll: true });
  }

  nextFailure() {
    const failures = this.view.filter((row) => this.rows.state[row] === FAILED);
    if (!failures.length) {
      if (this.rows.causes.length && this.isFiltered) { this.clear(); this.nextFailure(); }
      return;
    }
    const at = failures.indexOf(this.selected);
    this.goTo(failures[(at + 1) % failures.length]);
  }

  // Remember that the page is being printed, because its layout on paper may cause another draw.
  print(printing) {
    this.printing = printing;
    this.fit();
    this.redraw();
    this.tellPrinted();
  }

  tellPrinted() {
    const shown = Math.ceil(PRINTED / this.across) * this.across, { length } = this.view;
    $("printed").textContent = length > shown ? `The first ${shown} of ${count(length, "row")}; manifest.csv has all of them.` : "";
  }
}

const isLabel = (column) => column.name && ["label", "text"].includes(column.kind);
const shortName = (output) => output.split("/").slice(-1)[0];
