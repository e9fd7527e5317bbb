// The numbers at the top, the histograms and the bars.

function showNumbers(summary) {
  const { numbers } = summary;
  const items = [
    ["inputs", plain.format(numbers.inputs), numbers.source_seconds ? brief(numbers.source_seconds) : ""],
    ["outputs", plain.format(numbers.outputs), bytes(numbers.bytes)],
  ];
  if (numbers.seconds !== undefined) {
    const hours = numbers.seconds >= 3600;
    items.push([hours ? "hours" : "length", hours ? plain.format(Number((numbers.seconds / 3600).toPrecision(4))) : clock(numbers.seconds), `mean ${clock(numbers.seconds / numbers.outputs)}`]);
    if (numbers.source_seconds) items.push(["kept", share(numbers.seconds, numbers.source_seconds), `of ${brief(numbers.source_seconds)} recorded`]);
  }
  items.push(["failed", plain.format(numbers.failed), numbers.failed ? `${share(numbers.failed, numbers.inputs)} of inputs` : "none", numbers.failed ? "bad" : "good"]);
  if (numbers.left) items.push(["not tried yet", plain.format(numbers.left), `${share(numbers.left, numbers.inputs)} of inputs`, "warn"]);
  if (numbers.skipped) items.push(["skipped", plain.format(numbers.skipped), "skipped by the recipe"]);
  if (summary.clipping.measured) {
    const { clipped, measured } = summary.clipping;
    items.push(["clipped", share(clipped, measured), `${plain.format(clipped)} of ${plain.format(measured)}`, clipped ? "warn" : "good"]);
  }
  if (numbers.run) {
    items.push(["last run", clock(numbers.run.seconds), rateOf(numbers.run)]);
  }
  $("numbers").append(...items.map(([name, value, more, mood]) =>
    el("div", { class: mood || null }, el("dt", {}, name), el("dd", {}, value), el("dd", { class: "more" }, more || "\u00a0"))));
}

// In the unit that the progress of a run has; without sound, per second, minute or hour, so that it is at least one.
function rateOf({ seconds, inputs, sound_seconds: sound }) {
  const rate = (sound || inputs) / Math.max(seconds, 1e-3);
  if (sound) return `${withUnit(rate, "")} h of sound/h`;
  const [times, unit] = [[1, "s"], [60, "min"], [3600, "h"]].find(([of]) => rate * of >= 1) || [3600, "h"];
  return `${withUnit(rate * times, "")} inputs/${unit}`;
}

function share(part, whole) {
  if (!part || !whole) return "0 %";
  const percent = (100 * part) / whole;
  return percent < 0.1 ? "< 0.1 %" : `${percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

// -- histograms ----------------------------------------------------------------------------------------------

// Half the width of a digit in a tick, and the least room at both ends of the bars.
const HALF_DIGIT = 3.5, MARGIN = 12;

class Histogram {
  constructor(plot, choose) {
    this.plot = plot;
    this.told = el("p", { class: "told", "aria-live": "polite" });
    this.place = el("div", { class: plot.column ? "chart" : "chart only-look", ...(plot.edges ? {
      role: "slider", tabindex: 0, "aria-label": `${plot.title}, bar by bar`, "aria-valuemin": 0, "aria-valuemax": plot.edges.length - 2,
      keydown: (event) => this.key(event), blur: () => this.leave(),
    } : {}) });
    this.card = el("figure", { class: "card" },
      el("figcaption", {}, el("b", {}, plot.title), el("span", { class: "more" }, minus(plot.note))), this.told, this.place);
    this.counts = plot.counts;
    this.choose = choose;
    this.tell(null);
  }

  tell(bin, last = bin) {
    const { edges, unit, least, median, most } = this.plot;
    const bare = (number) => (["s", "bytes"].includes(unit) ? withUnit(number, unit) : withUnit(number, ""));
    if (bin === null || bin === undefined) {
      this.told.textContent = edges ? `median ${bare(median)}, from ${bare(least)} to ${withUnit(most, unit)}` : `all ${withUnit(least, unit)}`;
      return;
    }
    const there = this.counts.slice(bin, last + 1).reduce((sum, one) => sum + one, 0);
    this.told.textContent = `${bare(edges[bin])} to ${withUnit(edges[last + 1], unit)}: ${plain.format(there)}`;
  }

  // The bar of a value. A bar includes its lower edge, and the last one also its upper edge.
  bin(value) {
    const { edges } = this.plot;
    let low = 0, high = edges.length - 2;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (edges[middle] <= value) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  // The first and the last bar between two of the edges.
  bars(low, high) {
    const first = this.bin(low), last = this.bin(high);
    return [first, Math.max(first, this.plot.edges[last] === high ? last - 1 : last)];
  }

  // Arrows move from bar to bar, with Shift across several; Enter filters the rows by them.
  key(event) {
    const last = this.plot.edges.length - 2;
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, Home: -last, End: last }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (steps !== undefined) {
      this.at = this.at === undefined ? (steps < 0 ? last : 0) : Math.min(last, Math.max(0, this.at + steps));
      if (!event.shiftKey || this.from === undefined) this.from = this.at;
      const range = [Math.min(this.from, this.at), Math.max(this.from, this.at)];
      const left = this.chart.valToPos(range[0] - 0.5, "x");
      this.chart.setSelect({ left, width: this.chart.valToPos(range[1] + 0.5, "x") - left, top: 0, height: this.chart.over.clientHeight }, false);
      this.tell(...range);
      this.place.setAttribute("aria-valuenow", this.at);
      this.place.setAttribute("aria-valuetext", this.told.textContent);
    } else if ((event.key === "Enter" || event.key === " ") && this.at !== undefined) {
      if (this.plot.column) this.choose(this, Math.min(this.from, this.at), Math.max(this.from, this.at));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  leave() {
    this.at = this.from = undefined;
    if (this.chart) this.chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.tell(null);
  }

  toX(value) {
    const { edges, wide } = this.plot;
    const of = wide ? Math.log : (number) => number;
    const last = edges.length - 1;
    return ((of(value) - of(edges[0])) / (of(edges[last]) - of(edges[0]))) * last - 0.5;
  }

  ticks() {
    const { edges, wide } = this.plot;
    const [low, high] = [edges[0], edges[edges.length - 1]];
    const found = [];
    if (wide) {
      for (let power = Math.ceil(Math.log10(low)); 10 ** power <= high; power++) found.push(10 ** power);
      return found;
    }
    const rough = (high - low) / 4, unit = 10 ** Math.floor(Math.log10(rough));
    const step = unit * [1, 2, 2.5, 5, 10].find((factor) => unit * factor >= rough);
    for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-6; at += step) found.push(Number(at.toPrecision(12)));
    return found;
  }

  draw() {
    const { edges, unit } = this.plot;
    if (!edges) {
      this.place.replaceChildren(el("p", { class: "only" }, withUnit(this.plot.least, unit)));
      return;
    }
    const bins = edges.length - 1;
    const ticks = this.ticks();
    const bars = uPlot.paths.bars({ size: [1, Infinity], gap: 1 });
    const tickText = (value) => (unit === "bytes" && value ? bytes(value) : tick(value));
    if (this.chart) this.chart.destroy();
    this.place.replaceChildren();
    const width = Math.max(120, this.place.clientWidth);
    // leave as much room at each end as the text of a tick needs there
    const room = [0, 1].map((end) => Math.max(MARGIN, ...ticks.map((value) => {
      const from = Math.abs((this.toX(value) + 0.5) / bins - end) * (width - 2 * MARGIN);
      return Math.ceil(tickText(value).length * HALF_DIGIT + 2 - from);
    })));
    this.chart = new uPlot({
      width, height: 112, padding: [6, room[1], 0, room[0]], legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: Boolean(this.plot.column), y: false, setScale: false } },
      scales: { x: { time: false, range: [-0.5, bins - 0.5] }, y: { range: (_, __, most) => [0, Math.max(1, most)] } },
      axes: [{
        size: 24, gap: 4, stroke: style("--muted"), font: "11px system-ui, sans-serif", grid: { show: false },
        ticks: { size: 4, width: 1, stroke: style("--line") }, border: { show: true, width: 1, stroke: style("--line") },
        splits: () => ticks.map((value) => this.toX(value)), values: () => ticks.map(tickText),
      }, { show: false }],
      series: [{}, { paths: bars, fill: style("--faint"), width: 0, points: { show: false } },
        { paths: bars, fill: style("--accent"), width: 0, points: { show: false } }],
      hooks: {
        ready: [(chart) => chart.over.addEventListener("click", () => this.touched())],
        setCursor: [(chart) => this.tell(chart.cursor.left >= 0 ? chart.cursor.idx : null)],
        setSelect: [(chart) => this.selected(chart)],
      },
    }, [Array.from({ length: bins }, (_, bin) => bin), this.plot.counts, this.counts], this.place);
  }

  // On a touch screen, dragging moves the page, but touching a bar selects it.
  touched() {
    const bin = this.chart.cursor.idx;
    if (this.plot.column && this.chart.cursor.left >= 0 && bin !== null) this.choose(this, bin, bin);
  }

  selected(chart) {
    if (chart.select.width < 2) return;
    const bin = (left) => Math.min(this.plot.edges.length - 2, Math.max(0, Math.round(chart.posToVal(left, "x"))));
    const [first, last] = [bin(chart.select.left), bin(chart.select.left + chart.select.width)];
    chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.choose(this, first, last);
  }

  // Count the shown rows in each bin; without a filter, use the counts of all rows.
  recount(column, view) {
    const { edges } = this.plot;
    if (!edges || !this.chart) return;
    this.counts = this.plot.counts;
    if (view) {
      this.counts = new Array(edges.length - 1).fill(0);
      for (const row of view) {
        const value = column ? column.at(row) : null;
        if (value === null || value === undefined) continue;
        this.counts[this.bin(value)] += 1;
      }
    }
    this.chart.setData([this.chart.data[0], this.plot.counts, this.counts]);
  }
}

// -- labels --------------------------------------------------------------------------------------------------

const FEW = 8;

function labelCard({ column, title, values, others = { values: 0, outputs: 0 } }, splits, choose) {
  // outputs without a label come last, and their bar does not set the scale for the others
  const named = values.filter((one) => one.value !== ""), none = values.filter((one) => one.value === "");
  const longest = Math.max(...named.slice(0, FEW).map((one) => one.value.length), 6);
  const most = Math.max(1, ...(named.length ? named : none).map((one) => one.outputs));
  const total = values.reduce((sum, one) => sum + one.outputs, others.outputs);
  const timed = values.some((one) => one.seconds > 0);
  const side = (one) => (timed ? brief(one.seconds) : share(one.outputs, total));
  const widest = (text) => Math.max(...[...named.slice(0, FEW), ...none].map((one) => text(one).length));
  // bars can only be compared if their scales begin and end at the same place
  const list = el("ul", { class: "bars", style: `--value:${Math.min(longest, 24)}ch;--count:${widest((one) => plain.format(one.outputs))}ch;--side:${widest(side)}ch` });
  const bar = (one) => {
    if (column === "split" && splits.length) one.split = { [one.value]: one.outputs };
    const parts = splits.filter((part) => Object.hasOwn(one.split, part));
    const fill = el("span", { class: one.outputs > most ? "fill beyond" : "fill", style: `width:${Math.min(100, (100 * one.outputs) / most)}%` });
    if (parts.length) fill.append(...parts.map((part) => el("i", { class: `split-${splits.indexOf(part) % 6}`, style: `flex:${one.split[part]}`, title: `${part}: ${one.split[part]}` })));
    const detail = `${share(one.outputs, total)}${timed ? `, ${clock(one.seconds)}` : ""}`;
    return el("li", {}, el("button", { type: "button", disabled: !column, "aria-pressed": "false", title: `${one.value || "(none)"}: ${detail}`, click: () => choose(column, one.value), "data-value": one.value },
      el("span", { class: "value" }, one.value === "" ? "(none)" : one.value), el("span", { class: "track" }, fill),
      el("span", { class: "number" }, plain.format(one.outputs)), el("span", { class: "number soft" }, side(one))));
  };
  list.append(...[...named.slice(0, FEW), ...none].map(bar));
  const card = el("figure", { class: "card labels", "data-column": column },
    el("figcaption", {}, el("b", {}, title || column), el("span", { class: "more" }, count(named.length + others.values, "value"))), list);
  const rest = others.values ? el("p", { class: "note" }, `and ${count(others.values, "value")} more, in ${count(others.outputs, "output")}; use the search to find them`) : "";
  if (named.length > FEW) {
    const more = el("button", { class: "quiet", type: "button", click: () => { list.children[FEW - 1].after(...named.slice(FEW).map(bar)); more.replaceWith(rest); list.children[FEW].firstChild.focus(); } }, `${plain.format(named.length - FEW)} more`);
    card.append(more);
  } else card.append(rest);
  return card;
}

// Put each card into the column that is shortest so far, to avoid gaps next to long cards.
function stack(place, cards) {
  const most = matchMedia("(max-width: 720px)").matches ? 1 : matchMedia("(max-width: 1080px)").matches ? 2 : 4;
  if (place.childElementCount === most) return;
  const columns = Array.from({ length: most }, () => el("div", { class: "stack" })), heights = columns.map(() => 0);
  for (const card of cards) {
    const at = heights.indexOf(Math.min(...heights));
    columns[at].append(card);
    heights[at] += 2 + Math.min(FEW + 1, card.querySelectorAll("li").length);
  }
  place.replaceChildren(...columns);
}

function splitLegend(splits) {
  return el("p", { class: "legend note" }, "Bars are divided by split:", ...splits.map((part, at) => el("span", {}, el("i", { class: `split-${at % 6}` }), part || "(none)")));
}
