// When what runs, and what a device holds meanwhile: two lanes and an area over one axis of time.
const kLane = 22, kLeftEdge = 74, kMemoryHeight = 110;
const kSpan = {lane: 0, start: 1, seconds: 2, times: 3, depth: 4, op: 5, where: 6, collective: 7, hasBody: 8};
const chart = drawn("svg", {role: "group", "aria-label": "time line and memory", tabindex: 0});
const spans = data.times.spans;
const end = Math.max(data.times.seconds, ...data.times.memory.slice(-1).map(at => at[0]), 1e-12);
const depths = [0, 1].map(lane => Math.min(3, 1 + spans.reduce((most, span) => span[0] === lane ? Math.max(most, span[4]) : most, 0)));
let from = 0, to = end;  // what is in sight, in seconds

// Zooms by `factor` around the time `at`, and moves by the part `by` of what is in sight.
function look(factor, by = 0, at = (from + to) / 2) {
  const length = Math.min(end, Math.max(end / 1e5, (to - from) * factor));
  from = at - (at - from) * (length / (to - from)) + by * length;
  from = Math.min(Math.max(0, from), end - length);
  to = from + length;
  drawTimes();
}

// 1, 2 or 5 times a power of ten: about six of them in `length`.
function tickOf(length) {
  const power = 10 ** Math.floor(Math.log10(length / 6));
  return power * [1, 2, 5, 10].find(step => step * power >= length / 6);
}

let isTimesAsked = false;
function drawTimes() {
  if (isTimesAsked) return;
  isTimesAsked = true;
  requestAnimationFrame(() => {
    isTimesAsked = false;
    drawTimesNow();
  });
}

function drawTimesNow() {
  const width = Math.max(300, chart.clientWidth), right = width - 12;
  const focused = document.activeElement?.dataset?.span;
  const px = seconds => kLeftEdge + (seconds - from) / (to - from) * (right - kLeftEdge);
  const tops = [22, 22 + depths[0] * kLane + 8];
  const memoryTop = tops[1] + depths[1] * kLane + 14, bottom = memoryTop + kMemoryHeight;
  chart.setAttribute("height", bottom + 22);
  chart.setAttribute("viewBox", `0 0 ${width} ${bottom + 22}`);
  chart.replaceChildren(
    drawn("clipPath", {id: "in-sight"}, drawn("rect", {x: kLeftEdge, y: 0, width: right - kLeftEdge, height: bottom + 22})));
  const inside = drawn("g", {"clip-path": "url(#in-sight)"});

  const tick = tickOf(to - from);
  for (let t = Math.ceil(from / tick) * tick; t <= to; t += tick)
    inside.append(drawn("path", {class: "grid", d: `M${px(t)} 16V${bottom}`}),
                  drawn("text", {x: px(t) + 3, y: 12}, secondsText(Math.abs(t) < tick / 2 ? 0 : Number(t.toPrecision(6)))));
  ["compute", "links"].forEach((name, lane) => chart.append(drawn("text", {x: 8, y: tops[lane] + 15}, name)));

  // What is narrower than a pixel is joined with its neighbours.
  const reached = new Map();
  spans.forEach((span, i) => {
    const [lane, start, seconds, times, depth] = span;
    if (start + seconds < from || start > to || depth >= 3) return;
    const key = `${lane} ${depth}`, x1 = px(start), x2 = px(start + seconds);
    const isChosen = selected?.collective !== undefined && span[kSpan.collective] === selected.collective;
    if (x2 - (reached.get(key) ?? -1e9) < 1 && !isChosen) return;
    reached.set(key, Math.max(x2, x1 + 1));
    const y = tops[lane] + depth * kLane;
    const kind = lane === 1 ? "links" : span[kSpan.hasBody] ? "loop" : "compute";
    const said = `${span[kSpan.op]}${span[kSpan.where] === "" ? "" : ` (${span[kSpan.where]})`}: ${secondsText(seconds)}${times > 1 ? ` × ${times}` : ""}, from ${secondsText(start)}`;
    const collective = span[kSpan.collective];
    inside.append(drawn("rect", {
      class: `span ${kind}${isChosen ? " selected" : ""}`, x: x1, y, width: Math.max(1, x2 - x1), height: kLane - 4, rx: 1.5,
      "data-span": i, ...(collective < 0 ? {} : {"data-collective": collective, "aria-label": said,
                                                  ...asButton(() => select({collective}))}),
    }, drawn("title", {}, said)));
    const visible = Math.min(x2, right) - Math.max(x1, kLeftEdge);
    if (visible > 7 * span[kSpan.op].length + 6)
      inside.append(drawn("text", {class: "inside", x: Math.max(x1, kLeftEdge) + 4, y: y + 13}, span[kSpan.op]));
  });

  drawMemory(inside, px, memoryTop, bottom);
  chart.append(inside);
  if (focused !== undefined) chart.querySelector(`[data-span="${focused}"]`)?.focus();
}

function drawMemory(inside, px, top, bottom) {
  const memory = data.times.memory, peak = Math.max(1, data.peak.bytes);
  const y = bytes => bottom - bytes / peak * (bottom - top - 14);
  let path = "", last = -1;
  memory.forEach(([start, bytes], i) => {
    const until = i + 1 < memory.length ? memory[i + 1][0] : end;
    if (until < from || start > to) return;
    // One step per pixel is enough, unless it is the peak.
    const x = px(start);
    if (x - last < 0.5 && bytes !== peak && path !== "") return;
    path += path === "" ? `M${x} ${bottom}V${y(bytes)}` : `H${x}V${y(bytes)}`;
    last = x;
  });
  if (path !== "") inside.append(drawn("path", {class: "held", d: `${path}H${px(end)}V${bottom}Z`}));
  const at = memory.find(point => point[1] === data.peak.bytes);
  inside.append(drawn("path", {class: "peak", d: `M${kLeftEdge} ${y(peak)}H${px(to)}`}));
  if (at !== undefined) inside.append(drawn("circle", {cx: px(at[0]), cy: y(peak), r: 4, style: "fill:var(--series3)"},
                                            drawn("title", {}, `the most: at ${data.peak.at}`)));
  chart.append(drawn("text", {x: 8, y: top + 12}, "memory"), drawn("text", {x: 8, y: top + 26}, bytesText(data.peak.bytes)));
}

function startTimes() {
  const {seconds, compute_seconds, link_seconds, waited_seconds, limit} = data.times;
  byId("times-note").textContent = (data.has_times ? "" : "By the assumed topology, which is of no machine: times only compare. ") +
    `One step takes ${secondsText(seconds)}: ops ${secondsText(compute_seconds)}, collectives ${secondsText(link_seconds)}, ` +
    `${secondsText(waited_seconds)} of which nothing hides. What limits it: ${limit}.`;
  byId("times-tools").append(
    element("button", {"aria-label": "zoom in", click: () => look(1 / 1.6)}, "+"),
    element("button", {"aria-label": "zoom out", click: () => look(1.6)}, "−"),
    element("button", {"aria-label": "earlier", click: () => look(1, -0.3)}, "◀"),
    element("button", {"aria-label": "later", click: () => look(1, 0.3)}, "▶"),
    element("button", {click: () => look(1e9)}, "whole step"),
    element("span", {class: "note"}, "Drag to move; Ctrl and the wheel to zoom; arrow keys, + and −."));
  byId("times").append(chart);
  chart.addEventListener("keydown", event => {
    const act = {ArrowLeft: () => look(1, -0.2), ArrowRight: () => look(1, 0.2), "+": () => look(1 / 1.4), "-": () => look(1.4),
                 0: () => look(1e9)}[event.key];
    if (act === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  });
  const timeAt = event => {
    const box = chart.getBoundingClientRect();
    return from + (event.clientX - box.left - kLeftEdge) / (box.width - kLeftEdge - 12) * (to - from);
  };
  chart.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    look(Math.exp(event.deltaY / 300), 0, timeAt(event));
  }, {passive: false});
  let drag = null;
  chart.addEventListener("pointerdown", event => {
    if (event.button === 0) drag = timeAt(event);
  });
  window.addEventListener("pointermove", event => {
    if (drag !== null) look(1, (drag - timeAt(event)) / (to - from));
  });
  window.addEventListener("pointerup", () => { drag = null; });
  new ResizeObserver(drawTimes).observe(chart);
  onSelect(what => {
    const span = what?.collective === undefined ? undefined : spans.find(one => one[kSpan.collective] === what.collective);
    if (span !== undefined) {
      // In sight, and wide enough to be seen.
      const start = span[kSpan.start], middle = start + span[kSpan.seconds] / 2;
      if (start < from || start + span[kSpan.seconds] > to) look(1, (middle - (from + to) / 2) / (to - from));
    }
    drawTimes();
  });

  const {largest, num_live, at} = data.peak;
  byId("live").append(element("details", {}, element("summary", {},
    `A device holds the most, ${bytesText(data.peak.bytes)}, at ${at}: ${countText(num_live, "value")}`),
    element("table", {}, element("tbody", {}, ...largest.map(live => element("tr", {},
      element("td", {class: "number", title: exactBytes(live.bytes)}, bytesText(live.bytes)),
      element("td", {}, code(live.value)))))),
    largest.length < num_live ? element("p", {class: "note"}, `and ${num_live - largest.length} smaller ones`) : null));
}
