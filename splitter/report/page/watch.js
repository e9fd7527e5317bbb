// The progress of a run, requested every second or two, and drawn.

const EVERY = 1500;
const brisk = (number) => (number >= 10 ? plain.format(Math.round(number)) : String(Number((number || 0).toPrecision(2))));
const lapse = (seconds) => (seconds < 60 ? `${Math.round(seconds)} s` : clock(seconds));
let seen = null;
let chart = null;

function showState() {
  const report = seen.has_report ? el("a", { href: "/report.html", id: "report" }, "Open the report") : "";
  const state = document.documentElement.dataset.state = seen.who ? "running" : seen.inputs === undefined ? "starting" : seen.left ? "stopped" : "ended";
  const text = {
    running: [el("b", {}, "Running"), ` in ${seen.who}`],
    starting: [el("b", {}, "Starting"), ": the dataset list is being read"],
    stopped: [el("b", {}, "Not running"), `: ${count(seen.left, "input")} not tried yet; the same command continues. `, report],
    ended: [el("b", {}, "Ended"), ". ", report],
  }[seen.who && seen.inputs === undefined ? "starting" : state];
  $("state").replaceChildren(...text);
  $("trouble").hidden = !seen.trouble;
  $("trouble").textContent = seen.trouble || "";
}

// The time and the rate; not shown for a run that ended before anybody watched.
function paceItems() {
  const left = seen.seconds_left;
  return [
    ["time left", seen.who ? (left === null ? "?" : lapse(left)) : "\u2013", `${lapse(seen.seconds)} ${seen.who ? "so far" : "taken"}`],
    ["rate", brisk(seen.rate.mean), seen.rate.unit],
  ];
}

function showNumbers() {
  const tried = seen.inputs - seen.left;
  const share = seen.inputs ? (100 * tried) / seen.inputs : 100;
  const items = [
    ["inputs tried", plain.format(tried), `of ${plain.format(seen.inputs)}, ${Math.floor(share)} %`],
    ...(seen.who || seen.rate.inputs ? paceItems() : []),
    ["failed", plain.format(seen.failed), seen.failed ? "listed below" : "none", seen.failed ? "bad" : null],
    ["outputs", plain.format(seen.outputs), bytes(seen.bytes)],
  ];
  if (seen.skipped) items.push(["skipped", plain.format(seen.skipped), "by the recipe"]);
  $("numbers").replaceChildren(...items.map(([name, value, more, mood]) =>
    el("div", { class: mood }, el("dt", {}, name), el("dd", {}, value), el("dd", { class: "more" }, more))));
  const failed = seen.inputs ? (100 * seen.failed) / seen.inputs : 0;
  $("bar-done").style.width = `${share - failed}%`;
  $("bar-failed").style.width = `${failed}%`;
  $("bar").setAttribute("aria-valuemax", seen.inputs);
  $("bar").setAttribute("aria-valuenow", tried);
  document.title = `${Math.floor(share)} % · ${document.querySelector("h1").textContent}`;
}

function showPace() {
  const { times, values, unit, mean } = seen.rate;
  $("pace").hidden = !seen.rate.inputs;
  if ($("pace").hidden) return;
  $("unit").textContent = unit;
  $("mean").textContent = `mean ${brisk(mean)} over ${lapse(seen.seconds)}`;
  if (chart && chart.width !== $("chart").clientWidth) { chart.destroy(); chart = null; }
  if (chart) { chart.setData([times, values]); return; }
  const axis = { stroke: style("--muted"), font: "11px system-ui, sans-serif", grid: { show: true, width: 1, stroke: style("--line") }, ticks: { show: false } };
  chart = new uPlot({
    width: $("chart").clientWidth, height: 180, padding: [8, 24, 0, 0], legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: false }, y: { range: (_, __, most) => [0, Math.max(most * 1.05, 1e-9)] } },
    axes: [
      { ...axis, size: 26, space: 64, grid: { show: false }, values: (_, all) => all.map((one) => lapse(one)) },
      { ...axis, size: 56, values: (_, all) => all.map((one) => compact.format(one)) },
    ],
    series: [{}, { stroke: style("--accent"), fill: `${style("--accent")}30`, width: 1.5, points: { show: false } }],
  }, [times, values], $("chart"));
}

// A worker that has been silent for this many seconds may hang, or wait for work.
const SILENT = 40;

function showWorkers() {
  const nodes = new Map();
  for (const worker of seen.workers) {
    if (!nodes.has(worker.host)) nodes.set(worker.host, []);
    nodes.get(worker.host).push(worker);
  }
  $("working").hidden = !nodes.size;
  $("nodes").replaceChildren(...[...nodes].map(([host, workers]) => {
    const sum = (name) => workers.reduce((total, one) => total + one[name], 0);
    return el("table", { class: "workers" },
      el("caption", {}, host, el("span", {}, `${count(workers.length, "worker")}, ${count(sum("inputs"), "input")} done${sum("failed") ? `, ${plain.format(sum("failed"))} failed` : ""}`)),
      el("thead", {}, el("tr", {}, el("th", {}, "process"), el("th", {}, "doing"), el("th", { class: "number" }, "for"), el("th", { class: "number" }, "inputs"), el("th", { class: "number" }, "failed"))),
      el("tbody", {}, ...workers.map(workerRow)));
  }));
}

function workerRow(worker) {
  const silent = worker.ago > SILENT;
  const doing = worker.doing || "between batches";
  return el("tr", { class: silent ? "silent" : null },
    el("td", {}, String(worker.process)),
    el("td", {}, silent ? `${doing}; nothing heard for ${lapse(worker.ago)}` : doing),
    el("td", { class: "number" }, worker.doing ? lapse(worker.seconds + worker.ago) : ""),
    el("td", { class: "number" }, plain.format(worker.inputs)),
    el("td", { class: worker.failed ? "number bad" : "number" }, plain.format(worker.failed)));
}

function showFailures() {
  const open = new Set([...document.querySelectorAll("#causes details[open]")].map((one) => one.dataset.input));
  $("failures").hidden = !seen.failures.length;
  $("failures-note").textContent = seen.failed > seen.failures.length ? `the latest ${plain.format(seen.failures.length)} of ${plain.format(seen.failed)}` : "the latest first";
  $("causes").replaceChildren(...seen.failures.map(({ input, error, message, when }) =>
    el("details", { class: "cause", "data-input": input, open: open.has(input) },
      el("summary", {}, el("b", {}, error), el("span", { class: "why" }, `${input}: ${message}`), el("span", { class: "when" }, when ? new Date(1000 * when).toLocaleTimeString() : "")),
      el("div", { class: "inside" }, el("p", { class: "path" }, input), el("p", { class: "message bad" }, message)))));
}

function draw() {
  showRun(seen);
  showState();
  if (seen.inputs === undefined) return;
  showNumbers();
  showPace();
  showWorkers();
  showFailures();
}

async function ask() {
  try {
    const answer = await fetch("/watch.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    seen = await answer.json();
    draw();
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    $("trouble").hidden = false;
    $("trouble").textContent = `Not up to date: ${error.message}. Is 'splitter serve --watch' still running?`;
  }
  setTimeout(ask, EVERY);
}

function redraw() {
  if (chart) { chart.destroy(); chart = null; }
  if (seen) draw();
}

themeSwitch(redraw);
addEventListener("resize", redraw);
ask();
