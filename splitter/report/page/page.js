// Assemble the page: first the small parts, which are drawn at once, then the rows.

const summary = JSON.parse($("summary").textContent);
const histograms = [], labelCards = [];
let browser = null;

function showHead() {
  $("title").textContent = summary.title;
  showRun(summary);
  const parts = [["glance", "At a glance", summary.plots.length || summary.labels.length], ["listen", "Listen", summary.worth.length], ["failures", `Failures ${plain.format(summary.numbers.failed)}`, summary.causes.length], ["outputs", "Outputs", true]];
  for (const [id, text, there] of parts) {
    $(id).hidden = !there;
    if (there) $("nav").append(el("a", { href: `#${id}`, class: id === "failures" ? "bad" : null }, text));
  }
  const scope = [];
  if (summary.measured < summary.numbers.outputs) scope.push(`Levels, waveforms and previews cover ${plain.format(summary.measured)} of the ${count(summary.numbers.outputs, "output")}, chosen by a hash of their names; counts, lengths and labels cover all of them.`);
  if (summary.rows < summary.rows_total) scope.push(`The table lists ${plain.format(summary.rows)} of ${count(summary.rows_total, "row")}: the rows of some inputs, chosen by a hash of their names.`);
  $("scope").textContent = scope.join(" ");
  $("scope").hidden = !scope.length;
}

function showGlance() {
  for (const plot of summary.plots) {
    const histogram = new Histogram(plot, (...bars) => browser && browser.chooseBars(...bars));
    histograms.push(histogram);
    $("plots").append(histogram.card);
  }
  // three next to each other where four would leave a row of one or two
  if ([5, 6, 9].includes(summary.plots.length)) $("plots").style.setProperty("--across", 3);
  const splits = (summary.labels.find((one) => one.column === "split") || { values: [] }).values.map((one) => one.value);
  const divided = splits.length > 1 && summary.labels.some((one) => one.column !== "split");
  if (divided) $("balance").before(splitLegend(splits));
  labelCards.push(...summary.labels.map((one) => labelCard(one, divided ? splits : [], (column, value) => browser && browser.toggleLabel(column, value))));
}

function drawPlots() {
  stack($("balance"), labelCards);
  for (const histogram of histograms) histogram.draw();
  if (browser) recount(browser.isFiltered ? browser.view : null);
}

function recount(view) {
  for (const histogram of histograms) {
    const name = browser.columnOf(histogram.plot);
    histogram.recount(name ? browser.rows.byName.get(name) : null, view);
  }
}

function showCauses() {
  $("causes").append(...summary.causes.map((cause) => {
    const names = el("ul", { class: "inputs" }, ...cause.inputs.map((input) => el("li", {}, el("button", { type: "button", class: "link", click: () => openFailure(input) }, input))));
    if (cause.count > cause.inputs.length) names.append(el("li", { class: "note" }, `and ${plain.format(cause.count - cause.inputs.length)} more, in errors.csv`));
    return el("details", { class: "cause" },
      el("summary", {}, el("span", { class: "times-failed" }, plain.format(cause.count)), el("b", {}, cause.error), el("span", { class: "why" }, cause.message)),
      el("div", { class: "inside" }, el("p", { class: "message bad" }, cause.message), cause.traceback ? el("pre", { class: "quote" }, cause.traceback) : "", names));
  }));
  const { causes, count: times } = summary.more_causes;
  if (causes) $("causes").after(el("p", { class: "note more-causes" }, `and ${plain.format(causes)} more, of ${count(times, "failure")}: see the table below, or errors.csv`));
}

function openFailure(input) {
  if (!browser) return;
  for (let row = browser.rows.firstFailure; row < browser.rows.count; row++) {
    if (browser.rows.input.text(row) === input) {
      browser.reveal(row);
      return;
    }
  }
}

function showWorth(rows, inspector) {
  const card = ({ row, why }) => {
    const wave = rows.wave(row);
    const clipped = why.includes("most clipped") && `${share(rows.level("clipped", row), 1)} clipped`;
    const silent = why.includes("most silence") && `${fixed(rows.level("silence", row), 0)} %`;
    const facts = [clock(rows.level("seconds", row)), clipped || silent || `${fixed(rows.level("rms_db", row), 0)} dB`];
    return el("article", { class: "pick" },
      el("header", {}, el("button", { type: "button", class: "play", "aria-label": `Play ${rows.name(row)}`, "data-row": row, click: () => { browser.select(row, { scroll: true }); inspector.toggle(row); } }), el("b", {}, why), el("span", { class: "more" }, facts.join(" · "))),
      el("button", { type: "button", class: "pick-wave", title: rows.name(row), "aria-label": `Show ${rows.name(row)}`, click: () => browser.reveal(row) }, wave ? waveImage(wave, rows.level("peak_db", row)) : "", el("small", {}, rows.name(row))));
  };
  $("worth").append(...summary.worth.map(card));
}

function marked(filter) {
  for (const button of document.querySelectorAll(".labels button[data-value]")) {
    const column = button.closest(".labels").dataset.column;
    button.setAttribute("aria-pressed", String(filter.column === column && filter.value === button.dataset.value));
  }
}

function onKeys(inspector) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "Escape") {
      if (typing && $("search").value) { $("search").value = ""; $("search").dispatchEvent(new Event("input")); } else if (typing) event.target.blur();
      else browser.select(null);
      return;
    }
    if (typing && event.target.type !== "checkbox") return;
    const button = event.target.closest("button, summary, a, input");
    if (event.key === " " && !button && browser.selected !== null) inspector.toggle(browser.selected);
    else if (event.key === "ArrowLeft") { if (!inspector.seek(-1)) return; }
    else if (event.key === "ArrowRight") { if (!inspector.seek(1)) return; }
    else if (event.key === "j") browser.move(1);
    else if (event.key === "k") browser.move(-1);
    else if (event.key === "s") inspector.toggleSpectrum();
    else if (event.key === "f") browser.nextFailure();
    else if (event.key === "/") $("search").focus();
    else if (event.key === "x" && browser.selected !== null) browser.selection.toggle(browser.selected);
    else if (event.key === "g") browser.showAs(!browser.gallery);
    else if (event.key === "?") $("keys").showModal();
    else return;
    event.preventDefault();
  });
}

function onLook() {
  const wear = themeSwitch(drawPlots);
  let before = "";
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme || "";
    wear("light");
    if (browser) browser.print(true);
  });
  addEventListener("afterprint", () => {
    wear(before);
    if (browser) browser.print(false);
  });
  let wait = 0;
  addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(drawPlots, 100); });
}

async function showRows() {
  const [data, waves] = await Promise.all([inflated("rows"), inflated("waves")]);
  const rows = new Rows(JSON.parse(new TextDecoder().decode(data)), waves, summary.points);
  const sounds = new Sounds(summary, rows);
  const inspector = new Inspector(summary, rows, sounds);
  browser = new Browser(summary, rows, sounds, inspector);
  inspector.browser = browser;
  browser.listeners.push((view, filter) => { recount(view); marked(filter); });
  showWorth(rows, inspector);
  $("show-keys").addEventListener("click", () => $("keys").showModal());
  onKeys(inspector);
  browser.selection.restore();
  document.documentElement.dataset.ready = "yes";
}

showHead();
showNumbers(summary);
showGlance();
showCauses();
onLook();
drawPlots();
addEventListener("DOMContentLoaded", () => showRows().catch((error) => {
  $("scope").hidden = false;
  $("scope").textContent = `The rows cannot be shown: ${error.message}. Try a newer browser; manifest.csv has the same data.`;
  throw error;
}));
