// The view of a drawing: only what is in sight is in the page, so that thousands of ops cost no more than dozens.
const svg = drawn("svg", {role: "group", "aria-label": "the program as a graph"});
const stage = drawn("g");
svg.append(stage);
const spacer = element("div", {class: "spacer"});
const scroller = element("div", {class: "scroll"}, svg, spacer);
const overview = element("canvas", {"aria-hidden": "true", title: "the whole program; collectives are marked"});
const drawingChoice = element("select", {"aria-label": "which program is shown", change: () => showDrawing(Number(drawingChoice.value))});
const places = [];  // per drawing: layered's
let shown = 0, zoom = 1;
let inSight = new Map();  // key -> element

function placesOf(drawing) {
  places[drawing] ??= layered(data.drawings[drawing]);
  return places[drawing];
}

function showDrawing(drawing) {
  shown = drawing;
  drawingChoice.value = drawing;
  stage.replaceChildren();
  inSight = new Map();
  setZoom(zoom);
  // Above what is first, which need not be the middle of all.
  const place = placesOf(drawing), first = place.layers.slice(0, 8).flat();
  const middle = first.reduce((sum, v) => sum + place.x[v], 0) / Math.max(1, first.length);
  scroller.scrollTo(middle * zoom - scroller.clientWidth / 2, 0);
}

function setZoom(to, at = {x: scroller.clientWidth / 2, y: scroller.clientHeight / 2}) {
  const place = placesOf(shown);
  const x = (scroller.scrollLeft + at.x) / zoom, y = (scroller.scrollTop + at.y) / zoom;
  zoom = Math.min(2, Math.max(0.06, to));
  const width = Math.max(place.width * zoom, scroller.clientWidth);
  const height = Math.max(place.height * zoom, scroller.clientHeight);
  spacer.style.width = `${width}px`;
  spacer.style.height = `${Math.max(0, height - svg.clientHeight)}px`;
  scroller.scrollTo(x * zoom - at.x, y * zoom - at.y);
  drawGraph();
}
const fitZoom = () => Math.min(1, scroller.clientWidth / placesOf(shown).width);

// The middle of the drawing where it is narrower than the view.
const leftOf = place => Math.max(0, (scroller.clientWidth - place.width * zoom) / 2);

let isAsked = false;
function drawGraph() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
    drawInSight();
    drawOverview();
  });
}

function drawInSight() {
  const width = scroller.clientWidth, height = scroller.clientHeight;
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  const place = placesOf(shown), drawing = data.drawings[shown];
  const top = scroller.scrollTop / zoom, bottom = (scroller.scrollTop + height) / zoom;
  stage.setAttribute("transform",
                     `translate(${leftOf(place) - scroller.scrollLeft} ${-scroller.scrollTop}) scale(${zoom})`);
  const first = Math.max(0, Math.floor(top / kRow) - 1);
  const last = Math.min(place.layers.length - 1, Math.ceil(bottom / kRow));
  const left = (scroller.scrollLeft - leftOf(place)) / zoom - kColumn, right = left + width / zoom + 2 * kColumn;
  const wanted = new Map();
  // Edges first: boxes cover their ends.
  place.shortInto ??= bySecond(place.short, drawing.vertices.length);
  for (let row = first; row <= Math.min(place.layers.length - 1, last + kLongest); ++row)
    for (const v of place.layers[row])
      for (const edge of place.shortInto[v])
        if (place.layer[edge[0]] <= last && Math.max(place.x[v], place.x[edge[0]]) >= left &&
            Math.min(place.x[v], place.x[edge[0]]) <= right)
          wanted.set(edge, () => edgeElement(edge, place));
  for (let row = first; row <= last; ++row)
    for (const v of place.layers[row])
      if (place.x[v] >= left && place.x[v] <= right) wanted.set(v, () => vertexElement(v, place));

  const detail = zoom >= 0.4 ? "near" : "far";
  if (stage.getAttribute("class") !== detail) {
    stage.setAttribute("class", detail);
    stage.replaceChildren();
    inSight.clear();
  }
  for (const [key, made] of inSight) {
    if (wanted.has(key)) continue;
    made.remove();
    inSight.delete(key);
  }
  for (const [key, make] of wanted) {
    if (inSight.has(key)) continue;
    const made = make();
    inSight.set(key, made);
    if (typeof key === "number") stage.append(made);
    else stage.prepend(made);
  }
}
function bySecond(edges, n) {
  const lists = Array.from({length: n}, () => []);
  for (const edge of edges) lists[edge[1]].push(edge);
  return lists;
}

const yOf = (place, v) => place.layer[v] * kRow + 26;

function edgeElement(edge, place) {
  const [from, to, number, value] = edge;
  const layout = data.layouts[number];
  const x1 = place.x[from], y1 = yOf(place, from) + kBoxHeight, y2 = yOf(place, to);
  // Operands arrive side by side, in the order in which they come.
  const arriving = place.shortInto[to], k = arriving.indexOf(edge);
  const x2 = place.x[to] + (k - (arriving.length - 1) / 2) * Math.min(24, (kBox - 20) / arriving.length);
  const bend = Math.min(60, (y2 - y1) / 2);
  const classes = ["edge", layout.cut === "" ? "whole" : "", layout.partial ? "partial" : "", isAgain(layout) ? "again" : ""];
  return drawn("path", {class: classes.join(" "), style: `--c:${colourOf(layout)}`,
                        d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`},
               drawn("title", {}, `${value} ${layout.text}`));
}

const cutText = (text, length) => text.length <= length ? text : `${text.slice(0, length - 1)}…`;

function vertexElement(v, place) {
  const vertex = data.drawings[shown].vertices[v];
  const layout = data.layouts[vertex.layout];
  const isCollective = vertex.collective !== undefined;
  const x = place.x[v] - kBox / 2, y = yOf(place, v);
  const round = vertex.kind === "op" || vertex.kind === "local" ? 4 : 20;
  const c = isCollective ? data.collectives[vertex.collective] : null;
  const name = isCollective ? c.axes === "()" ? c.op : `${c.op} ${c.axes}` : vertex.kind === "update" ? `${vertex.label} :=` : vertex.label;
  const lines = isCollective ? [vertex.type, `${bytesText(c.bytes)}${c.times === 1 ? "" : ` × ${c.times}`}`]
                             : [vertex.type, layout.text];
  const said = `${vertex.text}${vertex.line === undefined ? "" : ` (${vertex.line})`}\n${vertex.type} ${layout.text}`;
  const group = drawn("g", {class: `vertex ${vertex.kind}`, style: `--c:${colourOf(layout)}`, "data-vertex": v,
                            "data-collective": vertex.collective, "aria-label": isCollective ? `collective ${vertex.collective + 1}: ${name}` : said,
                            ...asButton(() => selectVertex(shown, v))},
                      drawn("title", {}, said),
                      drawn("rect", {class: "body", x, y, width: kBox, height: kBoxHeight, rx: round}));
  if (!isCollective) group.append(drawn("rect", {class: "tint", x, y, width: kBox, height: kBoxHeight, rx: round}));
  if (selected !== null && selected.drawing === shown && selected.vertex === v) group.classList.add("selected");
  if (zoom < 0.4) return group;
  const middle = place.x[v];
  group.append(drawn("text", {x: middle, y: y + 16, "text-anchor": "middle"}, cutText(name, 22)),
               ...lines.map((line, i) => drawn("text", {class: "type", x: middle, y: y + 30 + 13 * i, "text-anchor": "middle"},
                                               cutText(line, 27))));
  appendStubs(group, v, place, x, y);
  return group;
}

// The ends of edges that are not drawn: "⤴ %w" above what reads it, "⤵ 2" below what is read.
function appendStubs(group, v, place, x, y) {
  place.longInto ??= bySecond(place.long, place.x.length);
  place.longOut ??= bySecond(place.long.map(([from, to]) => [to, from]), place.x.length);
  const into = place.longInto[v], out = place.longOut[v];
  const stub = (text, at, to) => drawn("text", {class: "stub", x: x + 4, y: at, click: event => {
    event.stopPropagation();
    goTo(to);
  }}, text);
  if (into.length > 0) group.append(stub(`⤴ ${cutText(into.map(edge => edge[3]).join(" "), 26)}`, y - 4, into[0][0]));
  if (out.length > 0) group.append(stub(`⤵ ${countText(out.length, "reader")} below`, y + kBoxHeight + 10, out[0][1]));
}

// Brings a vertex into the middle of the view.
function goTo(v) {
  const place = placesOf(shown);
  scroller.scrollTo(leftOf(place) + place.x[v] * zoom - scroller.clientWidth / 2,
                    (yOf(place, v) + kBoxHeight / 2) * zoom - scroller.clientHeight / 2);
  drawGraph();
}

function drawOverview() {
  const place = placesOf(shown), {vertices} = data.drawings[shown];
  const width = overview.clientWidth, height = overview.clientHeight;
  overview.width = width;
  overview.height = height;
  const context = overview.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const scale = height / Math.max(place.height, 1);
  context.fillStyle = style.getPropertyValue("--grid");
  context.fillRect(0, scroller.scrollTop / zoom * scale, width, Math.max(4, scroller.clientHeight / zoom * scale));
  for (let v = 0; v < vertices.length; ++v) {
    if (vertices[v].collective === undefined) continue;
    const chosen = selected !== null && selected.drawing === shown && selected.vertex === v;
    context.fillStyle = style.getPropertyValue(chosen ? "--series1" : "--ink");
    context.fillRect(chosen ? 0 : 3, yOf(place, v) * scale, chosen ? width : width - 6, chosen ? 4 : 1.5);
  }
}

function startGraph() {
  const graph = byId("graph");
  graph.append(scroller, overview);
  data.drawings.forEach((drawing, i) => drawingChoice.append(element("option", {value: i},
    `${drawing.title}: ${countText(drawing.vertices.length, "box").replace("boxs", "boxes")}`)));
  byId("graph-tools").append(...[
    data.drawings.length > 1 ? drawingChoice : null,
    element("button", {"aria-label": "larger", click: () => setZoom(zoom * 1.3)}, "+"),
    element("button", {"aria-label": "smaller", click: () => setZoom(zoom / 1.3)}, "−"),
    element("button", {click: () => setZoom(fitZoom())}, "fit width"),
    element("button", {click: () => setZoom(1)}, "100 %"),
    element("button", {click: () => step(-1)}, "previous collective"),
    element("button", {click: () => step(1)}, "next collective"),
    element("span", {class: "note"}, "Drag to move; Ctrl and the wheel to zoom."),
  ].filter(child => child !== null));
  for (const cut of ["", ...cutNumber.keys()]) {
    const texts = data.layouts.filter(layout => layout.cut === cut && !layout.partial).map(layout => layout.text);
    if (texts.length === 0 && !data.layouts.some(layout => layout.cut === cut)) continue;
    const examples = texts.slice(0, 4).join("  ") + (texts.length > 4 ? " …" : "");
    byId("legend").append(element("li", {}, chipOf(data.layouts.find(layout => layout.cut === cut && !layout.partial) ?? {cut}),
                                  cut === "" ? "whole " : `cut over ${cut} `, code(examples)));
  }
  if (data.layouts.some(layout => layout.partial))
    byId("legend").append(element("li", {}, chipOf({cut: "", partial: true}), "partial: a sum is still owed"));

  scroller.addEventListener("scroll", drawGraph, {passive: true});
  scroller.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = scroller.getBoundingClientRect();
    setZoom(zoom * Math.exp(-event.deltaY / 400), {x: event.clientX - box.left, y: event.clientY - box.top});
  }, {passive: false});
  let drag = null;
  scroller.addEventListener("pointerdown", event => {
    if (event.button !== 0 || event.target.closest(".vertex") !== null) return;
    drag = {x: event.clientX + scroller.scrollLeft, y: event.clientY + scroller.scrollTop};
  });
  window.addEventListener("pointermove", event => {
    if (drag === null) return;
    scroller.classList.add("dragged");
    scroller.scrollTo(drag.x - event.clientX, drag.y - event.clientY);
  });
  window.addEventListener("pointerup", () => {
    drag = null;
    scroller.classList.remove("dragged");
  });
  overview.addEventListener("click", event => {
    const y = event.offsetY / overview.clientHeight * placesOf(shown).height;
    scroller.scrollTo(scroller.scrollLeft, y * zoom - scroller.clientHeight / 2);
  });
  // In the next frame: what is resized within the observer is an error of the page.
  new ResizeObserver(() => requestAnimationFrame(() => setZoom(zoom))).observe(scroller);
  onSelect(what => {
    if (what !== null) {
      if (what.drawing !== shown) showDrawing(what.drawing);
      goTo(what.vertex);
    }
    for (const [key, made] of inSight)
      if (typeof key === "number")
        made.classList.toggle("selected", what !== null && what.drawing === shown && what.vertex === key);
    drawGraph();
  });
  zoom = Math.max(0.8, fitZoom());
  graph.style.height = `${Math.min(640, Math.max(240, placesOf(0).height * zoom + 20))}px`;
  showDrawing(0);
}

// Selects the collective that runs before or after the selected one.
function step(by) {
  const n = data.collectives.length;
  if (n === 0) return;
  const now = selected?.collective;
  select({collective: now === undefined ? (by > 0 ? 0 : n - 1) : (now + by + n) % n});
}
