// Actions on rows: mark them, copy a condition for them, save a list of them, and link to what is shown.

const MARK = 20;
// As in splitter/text/conditions.py.
const LONGEST_CONDITION = 10000;
const KEYWORDS = new Set("False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield".split(" "));

class Selection {
  constructor(browser) {
    Object.assign(this, { browser, rows: browser.rows, marked: new Set(), last: null });
    this.all = el("input", { type: "checkbox", "aria-label": "Mark all rows that are shown", title: "Mark all rows that are shown", click: () => this.toggleAll() });
    $("unmark").addEventListener("click", () => { this.marked.clear(); this.say(); });
    $("copy-link").addEventListener("click", () => this.copy(this.link(), "Link"));
    $("copy-where").addEventListener("click", () => this.copyCondition());
    $("save-list").addEventListener("click", () => this.save());
    addEventListener("hashchange", () => this.restore());
  }

  // The rows to act on: those that are marked, or else all that are shown.
  get meant() {
    return this.marked.size ? [...this.marked].sort((one, other) => one - other) : this.browser.view;
  }

  box(row) {
    const box = el("input", { type: "checkbox", tabindex: -1, "data-mark": row, "aria-label": `Mark ${this.rows.name(row)}`, click: (event) => { event.stopPropagation(); this.toggle(row, event.shiftKey); } });
    box.checked = this.marked.has(row);
    return box;
  }

  // Mark or unmark a row; with Shift, all rows from the last one to this one.
  toggle(row, together = false) {
    const { view } = this.browser;
    const marks = !this.marked.has(row), at = view.indexOf(row), last = together ? view.indexOf(this.last) : -1;
    const some = at < 0 || last < 0 ? [row] : view.slice(Math.min(at, last), Math.max(at, last) + 1);
    for (const one of some) this.marked[marks ? "add" : "delete"](one);
    this.last = row;
    this.say();
  }

  toggleAll() {
    const { view } = this.browser, marks = !view.every((row) => this.marked.has(row));
    for (const row of view) this.marked[marks ? "add" : "delete"](row);
    this.say();
  }

  say() {
    const { marked, browser } = this;
    for (const box of document.querySelectorAll("input[data-mark]")) box.checked = marked.has(Number(box.dataset.mark));
    const there = browser.view.reduce((sum, row) => sum + marked.has(row), 0);
    this.all.checked = there > 0 && there === browser.view.length;
    this.all.indeterminate = there > 0 && !this.all.checked;
    $("marked").hidden = !marked.size;
    $("marks").textContent = `${plain.format(marked.size)} marked`;
    $("copy-where").disabled = !marked.size && !browser.isFiltered;
    $("save-list").disabled = !this.meant.length;
    this.tell("");
  }

  tell(said, code = "") {
    $("result").hidden = !said;
    $("result").replaceChildren(said, code ? el("code", {}, code) : "");
  }

  // If the browser does not let a page copy, select the text, to be copied by hand.
  async copy(text, what) {
    const copied = await navigator.clipboard.writeText(text).then(() => true, () => false);
    this.tell(copied ? `${what} copied: ` : `Copy this ${what.toLowerCase()}: `, text);
    if (!copied) getSelection().selectAllChildren($("result").lastChild);
  }

  // -- the condition --------------------------------------------------------------------------------------------

  copyCondition() {
    const found = this.condition();
    if (!found) this.tell("These inputs failed, so the manifest has no rows for them; save the list instead.");
    else if (found.length > LONGEST_CONDITION) this.tell("A condition for this many rows would be too long; save the list instead.");
    else this.copy(`--where ${inShell(found)}`, "Condition");
  }

  condition() {
    const ofFilter = this.marked.size ? null : this.conditionOfFilter();
    if (ofFilter !== null) return ofFilter;
    const { rows, meant } = this;
    const made = meant.filter((row) => rows.state[row] === OUTPUT);
    // a stage that made only metadata has no outputs, so name its inputs
    const [column, some] = made.length ? [rows.output, made] : [rows.input, meant.filter((row) => rows.state[row] !== FAILED)];
    const names = [...new Set(some.map((row) => quoted(column.text(row))))];
    return names.length > 1 ? `${nameOf(column.name)} in (${names.join(", ")})` : names.length ? `${nameOf(column.name)} == ${names[0]}` : "";
  }

  // The filters as a condition over the columns of the manifest; null if no condition can express them.
  conditionOfFilter() {
    const { text, status, column, value, ranges } = this.browser.filter;
    if (text || !["all", "outputs"].includes(status) || this.browser.leavesOut) return null;
    const parts = status === "outputs" ? ["output != ''"] : [];
    if (column && value !== null) parts.push(this.conditionOfLabel(column, value));
    for (const [name, { low, high, isLast }] of ranges) {
      parts.push(name.startsWith("#") ? null : `${low} <= ${nameOf(name)} ${isLast ? "<=" : "<"} ${high}`);
    }
    return parts.includes(null) ? null : parts.join(" and ");
  }

  conditionOfLabel(name, value) {
    // long texts are cut in this page
    if (value.endsWith("…")) return null;
    if (value && this.rows.byName.get(name).number) return `${nameOf(name)} == ${value}`;
    if (!value || !hasSeveral(name)) return `${nameOf(name)} == ${quoted(value)}`;
    const [inCell, more] = [value.replace(/(\\*)\|/g, "$1$1\\|"), /\\*$/.exec(value)[0]].map((text) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    return `${nameOf(name)} ~ ${quoted(`(^|(?<!\\\\)(\\\\\\\\)*\\|)${inCell}($|${more}\\|)`)}`;
  }

  // -- the list -------------------------------------------------------------------------------------------------

  // A dataset list of the outputs, with the labels of the dataset; if there are no outputs, of the inputs.
  list() {
    const { rows, meant } = this;
    const made = meant.filter((row) => rows.state[row] === OUTPUT), some = made.length ? made : meant;
    const labels = rows.columns.filter((one) => one.dataset && one !== rows.input && !one.isCut);
    const taken = new Set(["input"]);
    const named = [...labels, ...(made.length ? [rows.input] : [])].map((column) => {
      let name = column === rows.input || column.name === "input" ? `from_${column.name}` : column.name;
      while (taken.has(name)) name = `from_${name}`;
      taken.add(name);
      return [name, column];
    });
    const first = made.length ? rows.output : rows.input;
    const lines = [["input", ...named.map(([name]) => name)], ...some.map((row) => [first.text(row), ...named.map(([, column]) => column.text(row))])];
    return { text: lines.map((line) => `${line.map(inCsv).join(",")}\n`).join(""), count: some.length, of: made.length ? "output" : "input" };
  }

  save() {
    const { text, count: rows, of } = this.list();
    const name = `${summary.title}-selected.csv`;
    // lone surrogates stand for bytes of file names that are not UTF-8
    const parts = text.split(/(\p{Cs})/u).map((part, at) => (at % 2 ? new Uint8Array([part.charCodeAt(0) & 255]) : part));
    const url = URL.createObjectURL(new Blob(parts, { type: "text/csv" }));
    el("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
    if (summary.shards && of === "output") this.tell(`${count(rows, of)} listed in ${name}. They are not loose files, so a run cannot read them from this list.`);
    else this.tell(`${count(rows, of)} listed in ${name}. To run over them: `, `splitter run ${inShell(name)} --root ${of === "output" ? inShell(summary.title) : "FOLDER"}`);
  }

  // -- the link -------------------------------------------------------------------------------------------------

  link() {
    const state = this.state();
    return `${location.href.split("#")[0]}${state ? `#?${state}` : ""}`;
  }

  state() {
    const { filter, sort, gallery, selected } = this.browser;
    const found = new URLSearchParams();
    if (filter.text) found.set("search", filter.text);
    if (filter.status !== "all") found.set("rows", filter.status);
    if (filter.value !== null) { found.set("label", filter.column); found.set("value", filter.value); }
    for (const [name, { low, high }] of filter.ranges) found.append("range", `${name}:${low}:${high}`);
    if (sort.column) found.set("sort", (sort.down ? "-" : "+") + sort.column);
    if (gallery) found.set("view", "gallery");
    if (selected !== null) found.set("row", this.rows.name(selected));
    return found.toString();
  }

  // Keep the address of the page up to date with what is shown, but not more often than browsers allow.
  note() {
    clearTimeout(this.wait);
    this.wait = setTimeout(() => {
      const state = this.state();
      if (state || location.hash.startsWith("#?")) history.replaceState(null, "", `#${state ? `?${state}` : ""}`);
    }, 300);
  }

  // Show what the address of the page asks for, as far as it exists.
  restore() {
    if (!location.hash.startsWith("#?")) return;
    const asked = new URLSearchParams(location.hash.slice(2));
    const { browser, rows } = this;
    if (asked.toString() === this.state()) return;
    browser.clear();
    const status = asked.get("rows");
    if ([...$("status").options].some((one) => one.value === status)) browser.filter.status = $("status").value = status;
    browser.filter.text = ($("search").value = asked.get("search") || "").trim().toLowerCase();
    for (const range of asked.getAll("range")) {
      const [, name, low, high] = range.match(/^(.*):(.*):(.*)$/s) || [];
      const histogram = histograms.find((one) => one.plot.edges && browser.columnOf(one.plot) === name);
      if (histogram) browser.addBars(histogram, ...histogram.bars(Number(low), Number(high)));
    }
    const [column, sort] = [asked.get("label"), asked.get("sort") || ""];
    if (rows.byName.has(sort.slice(1))) Object.assign(browser.sort, { column: sort.slice(1), down: sort[0] === "-" });
    browser.chooseLabel(summary.labels.some((one) => one.column === column) ? column : "", column ? asked.get("value") : null);
    browser.showAs(asked.get("view") === "gallery");
    const name = asked.get("row");
    const row = name === null ? undefined : browser.view.find((one) => rows.name(one) === name);
    if (row !== undefined) browser.goTo(row);
    else $("outputs").scrollIntoView({ block: "start", behavior: "instant" });
  }
}

const nameOf = (column) => (/^[A-Za-z_]\w*$/.test(column) && !KEYWORDS.has(column) ? column : `\`${column}\``);

// A text as a Python literal, because conditions are Python expressions.
const quoted = (text) => `'${text.replace(/[\\']/g, "\\$&").replace(/[\p{Cc}\p{Cs}]/gu, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`)}'`;

const inShell = (text) => (/^[\w./:@%+=-]+$/.test(text) ? text : /["$`\\!]/.test(text) ? `'${text.replaceAll("'", "'\\''")}'` : `"${text}"`);

const inCsv = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
