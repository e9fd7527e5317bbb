// The table: filtered, sorted, and drawn only where it is seen.

const LEAST = { wave: 90, image: 72, name: 190, text: 140, number: 68, bytes: 76, label: 84 };
const ROW = 48, AROUND = 8, PRINTED = 40;

class Browser {
  constructor(summary, rows, sounds, chosen) {
    Object.assign(this, { summary, rows, sounds, chosen });
    this.filter = { text: "", status: "all", column: "", value: null, ranges: new Map() };
    this.sort = { column: null, down: false };
    this.selected = null;
    this.drawn = new Map();
    this.listeners = [];
    this.wanted = this.columnsWanted();
    this.columns = [];
    this.view = [];
    this.table = $("table");
    this.body = $("body");
    this.table.style.setProperty("--all", `${rows.count * ROW + 120}px`);
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
    const number = (name, title, digits, unit) => {
      const least = Math.min(150, Math.max(LEAST.number, Math.ceil(title.length * 7.5)));
      shown.push({ name, title, kind: "number", digits, unit, least, width: `${least + 8}px` });
    };
    if (sound) shown.push({ name: "", title: "", kind: "wave", width: "minmax(90px, 0.9fr)" });
    else if (summary.kinds.image) shown.push({ name: "", title: "", kind: "image", width: "72px" });
    shown.push({ name: "output", title: "Output", kind: "name", width: "minmax(150px, 1.4fr)" });
    if (!sound && summary.kinds.text) shown.push({ name: "", title: "Begins with", kind: "text", width: "minmax(120px, 2fr)" });
    if (sound || summary.numbers.seconds !== undefined) number("#seconds", "Length", 2, "s");
    if (sound) {
      number("#rms_db", "RMS dB", 1);
      number("#peak_db", "Peak dB", 1);
      number("#silence", "Silence %", 0);
    } else {
      shown.push({ name: "size", title: "Size", kind: "bytes", width: "84px" });
      for (const plot of summary.plots) if (rows.byName.has(plot.column) && !["size", "seconds"].includes(plot.column)) number(plot.column, plot.column, 3);
    }
    const labels = summary.labels.map((one) => one.column).filter((name) => rows.byName.has(name) && !/^(source_.*|sample_rate|channels)$/.test(name));
    for (const name of labels.slice(0, 3)) shown.push({ name, title: name, kind: "label", width: "minmax(70px, 0.6fr)" });
    return shown;
  }

  // Where there is little room, columns go: labels first, the name never.
  fit() {
    const shown = [...this.wanted];
    const width = () => shown.reduce((sum, one) => sum + (one.least || LEAST[one.kind]) + 12, 66);
    for (const kind of ["label", "number", "wave", "text", "bytes", "image"]) {
      for (let at = shown.length - 1; at > 0 && width() > this.table.clientWidth; at--) {
        const last = kind === "number" && shown.filter((one) => one.kind === kind).length === 1;
        if (shown[at].kind === kind && !last) shown.splice(at, 1);
      }
      if (kind === "wave" && width() > this.table.clientWidth && shown[0].kind === kind) shown.shift();
    }
    if (shown.length === this.columns.length) {
      this.draw();
      return;
    }
    this.columns = shown;
    this.head();
    this.order();
  }

  head() {
    this.table.style.setProperty("--columns", `${this.summary.kinds.sound ? "var(--play)" : "0px"} ${this.columns.map((one) => one.width).join(" ")}`);
    this.table.setAttribute("aria-colcount", this.columns.length + 1);
    $("head").replaceChildren(el("span", { role: "columnheader", class: "cell", "aria-label": "Play" }), ...this.columns.map((one) => {
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
  }

  clear() {
    // what is still to come of the search field is of before
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
    const { title, unit, edges } = histogram.plot;
    const name = this.columnOf(histogram.plot);
    const has = (value) => {
      const bin = histogram.bin(value);
      return bin >= first && bin <= last;
    };
    if (name) this.filter.ranges.set(name, { title, unit, low: edges[first], high: edges[last + 1], has });
    this.apply();
  }

  columnOf(plot) {
    if (this.rows.byName.has(`#${plot.column}`)) return `#${plot.column}`;
    return this.rows.byName.has(plot.column) ? plot.column : null;
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
    const found = [];
    for (let row = 0; row < rows.count; row++) if (tests.every((test) => test(row))) found.push(row);
    this.view = found;
    this.order();
    this.say();
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
    [...$("head").children].slice(1).forEach((cell, at) => {
      const is = this.columns[at].name && this.columns[at].name === name;
      cell.setAttribute("aria-sort", is ? (down ? "descending" : "ascending") : "none");
    });
    this.redraw();
  }

  say() {
    const { rows, summary, view, filter } = this;
    const total = rows.count < summary.rows_total ? ` of ${plain.format(rows.count)} listed` : "";
    $("shown").textContent = view.length === rows.count ? count(view.length, "row") : `${plain.format(view.length)} of ${count(rows.count, "row")}`;
    if (total && view.length === rows.count) $("shown").textContent += ` listed, of ${plain.format(summary.rows_total)}`;
    const failed = view.filter((row) => rows.state[row] === FAILED).length;
    if (failed && failed < view.length) $("shown").textContent += `, ${plain.format(failed)} failed`;
    $("empty").hidden = view.length > 0;
    $("nothing").textContent = rows.count ? "No row matches these filters." : "The manifest has no rows yet.";
    $("clear").hidden = !rows.count;
    $("printed").textContent = view.length > PRINTED ? `The first ${PRINTED} of ${count(view.length, "row")}; manifest.csv has all of them.` : "";
    $("chips").replaceChildren(...[...filter.ranges].map(([name, { title, unit, low, high }]) =>
      el("button", { type: "button", class: "chip", title: "Remove this filter", click: () => { filter.ranges.delete(name); this.apply(); } },
        `${title} ${withUnit(low, unit)} to ${withUnit(high, unit)} ×`)));
    this.table.setAttribute("aria-rowcount", view.length + 1);
  }

  // -- what is seen -------------------------------------------------------------------------------------------

  redraw() {
    this.drawn.forEach((element) => element.remove());
    this.drawn.clear();
    this.body.style.height = `${this.view.length * ROW}px`;
    this.draw();
  }

  draw(first, last) {
    if (first === undefined) {
      first = Math.max(0, Math.floor(this.table.scrollTop / ROW) - AROUND);
      last = Math.min(this.view.length, Math.ceil((this.table.scrollTop + this.table.clientHeight) / ROW) + AROUND);
    }
    for (const [at, element] of this.drawn) {
      if (at < first || at >= last) {
        element.remove();
        this.drawn.delete(at);
      }
    }
    for (let at = first; at < last; at++) {
      if (this.drawn.has(at)) continue;
      const element = this.row(at, this.view[at]);
      this.drawn.set(at, element);
      this.body.append(element);
    }
  }

  row(at, row) {
    const { rows } = this;
    const state = rows.state[row];
    const element = el("div", {
      role: "row", id: `row-${row}`, class: `row ${["", "empty-row", "skipped", "failed"][state]}`, "aria-rowindex": at + 2, "aria-selected": String(row === this.selected),
      style: `top:${at * ROW}px`, click: () => this.select(row),
    });
    const plays = state === OUTPUT && this.isSound(row);
    element.append(el("span", { role: "gridcell", class: "cell" }, plays
      ? el("button", { type: "button", class: "play", tabindex: -1, "aria-label": `Play ${rows.name(row)}`, "data-row": row, click: (event) => { event.stopPropagation(); this.select(row); this.chosen.toggle(row); } })
      : null));
    for (const column of this.columns) element.append(this.cell(column, row, state));
    return element;
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
    } else if (column.kind === "text") cell.append(rows.texts[row] ?? "");
    else if (column.kind === "name") {
      const output = rows.output.text(row), input = rows.input.text(row);
      const message = state >= SKIPPED ? rows.message.text(row) : rows.unread[row] || "";
      cell.append(el("b", { title: output || input }, shortName(output) || input));
      cell.append(el("small", { title: message || input }, message || (output ? input : "no file")));
    } else {
      const value = rows.value(column.name, row);
      if (column.kind === "bytes") cell.append(value ? bytes(value) : "");
      else if (column.kind === "number") cell.append(typeof value !== "number" ? "" : Number.isInteger(value) && !column.name.startsWith("#") ? plain.format(value) : fixed(value, column.digits));
      else cell.append(value === null ? "" : String(value).replaceAll("\\|", "|"));
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
  }

  show(row) {
    const at = this.view.indexOf(row);
    if (at < 0) return;
    // on small screens the row that is chosen is told of above the lower part of the table
    const sheet = getComputedStyle($("inspector")).position === "fixed" ? $("inspector").getBoundingClientRect().top : Infinity;
    const box = this.table.getBoundingClientRect();
    const covered = box.top < sheet - 2 * ROW ? Math.max(0, box.bottom - sheet) : 0;
    const top = at * ROW, height = this.table.clientHeight - ROW - covered;
    if (top < this.table.scrollTop) this.table.scrollTop = top;
    else if (top + ROW > this.table.scrollTop + height) this.table.scrollTop = top + ROW - height;
    this.draw();
  }

  move(steps) {
    if (!this.view.length) return;
    const at = this.view.indexOf(this.selected);
    const next = at < 0 ? 0 : Math.min(this.view.length - 1, Math.max(0, at + steps));
    this.select(this.view[next], { scroll: true });
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.table.clientHeight / ROW) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (steps !== undefined) this.move(steps);
    else if (event.key === "Enter" && event.target === this.table && this.selected !== null) this.chosen.toggle(this.selected);
    else return;
    event.preventDefault();
  }

  reveal(row) {
    if (!this.view.includes(row)) this.clear();
    this.goTo(row);
  }

  goTo(row) {
    $("outputs").scrollIntoView({ block: "start", behavior: "instant" });
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

  printable() {
    this.fit();
    this.redraw();
    this.body.style.height = `${Math.min(PRINTED, this.view.length) * ROW}px`;
    this.draw(0, Math.min(PRINTED, this.view.length));
  }
}

const shortName = (output) => output.split("/").slice(-1)[0];
