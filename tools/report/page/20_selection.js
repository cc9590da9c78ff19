// What is selected – a collective or an op – and the panel that tells of it. Views hear of it by onSelect.
const listeners = [];
const onSelect = listener => listeners.push(listener);
let selected = null;  // {collective} or {drawing, vertex}
let before = null;    // what had the focus

function select(what) {
  if (selected === null) before = document.activeElement;
  selected = what;
  if (what.collective !== undefined) {
    const c = data.collectives[what.collective];
    selected = {collective: what.collective, drawing: c.drawing, vertex: c.vertex};
  }
  showPanel();
  for (const listener of listeners) listener(selected);
}
function deselect() {
  if (selected === null) return;
  selected = null;
  byId("panel").classList.remove("open");
  byId("panel").replaceChildren();
  for (const listener of listeners) listener(null);
  if (before !== null && before.isConnected) before.focus();
}
document.addEventListener("keydown", event => {
  if (event.key === "Escape") deselect();
});
// A button's keys, for what is drawn.
const asButton = act => ({
  tabindex: 0,
  role: "button",
  click: act,
  keydown: event => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    act(event);
  },
});

function facts(...pairs) {
  const list = element("dl");
  for (const [name, value, field] of pairs) {
    if (value === null || value === "") continue;
    list.append(element("dt", {}, name), element("dd", {"data-field": field}, value));
  }
  return list;
}

// An op with its rule and line, which leads to its place in the program.
function opOf(drawing, v) {
  const vertex = data.drawings[drawing].vertices[v];
  const lines = [element("button", {class: "code", click: () => select({drawing, vertex: v})}, vertex.text)];
  if (vertex.rule !== undefined) lines.push(element("div", {}, "rule ", element("code", {"data-field": "rule"}, vertex.rule)));
  if (vertex.line !== undefined) lines.push(element("div", {class: "note"}, vertex.line));
  return element("div", {}, ...lines);
}
function opsOf(drawing, vertices) {
  const shown = vertices.slice(0, 4).map(v => opOf(drawing, v));
  if (vertices.length > 4) shown.push(element("div", {class: "note"}, `and ${countText(vertices.length - 4, "more op")}`));
  return shown.length === 0 ? null : element("div", {}, ...shown);
}

function valueOf(c, value) {
  return element("div", {class: "value"}, facts(
    ["value", element("span", {}, code(value.name === undefined ? value.type : `${value.name}: ${value.type}`))],
    ["line", value.line === "" ? "" : code(value.line), "line"],
    ["from", layoutText(value.from), "from"],
    ["to", layoutText(value.to), "to"],
    ["made by", opsOf(c.drawing, value.makers)],
    ["needed by", opsOf(c.drawing, value.readers)],
    ["why", value.cause, "cause"]));
}

const costsText = cost => [bytesText(cost.bytes), ...(cost.seconds === undefined ? [] : [secondsText(cost.seconds)])].join(", ");

// The change of a layout, and what the whole step costs with it.
function changeOf(change, ...first) {
  return element("div", {class: "change"}, code(change.value), othersText(change.others), " ", layoutText(change.to), " instead of ",
                 layoutText(change.from), change.line === "" ? null : ` (${change.line})`, ...first,
                 element("div", {class: "note"}, `the step: ${countText(change.cost.collectives, "collective")}, ` +
                   `${costsText(change.cost)} instead of ${costsText(data.cost)}; ` +
                   `${bytesText(change.cost.peak_bytes)} of memory instead of ${bytesText(data.cost.peak_bytes)}`));
}
function changesOf(c) {
  const {changes, tried} = data.alternatives;
  const parts = [element("h3", {}, "The cheapest change for it")];
  if (c.change !== undefined) {
    const {number, before: was, after} = c.change;
    const text = after.bytes === 0 ? "These values are then not moved at all."
                                   : `These values then cost ${costsText(after)} instead of ${costsText(was)}.`;
    parts.push(element("div", {"data-field": "change"}, changeOf(changes[number], element("div", {}, text))));
  } else {
    parts.push(element("p", {"data-field": "change"}, tried === 0 ? "No other layouts were looked at."
      : `None was found: of ${countText(tried, "other layout")} that were looked at, none makes both it and the step cheaper.`));
  }
  if (changes.length > 0 && (c.change === undefined || c.change.number !== 0))
    parts.push(element("h3", {}, "The cheapest change for the step"), changeOf(changes[0]));
  return parts;
}

function collectivePanel(i) {
  const c = data.collectives[i];
  const values = element("div");
  const show = count => {
    values.replaceChildren(...c.values.slice(0, count).map(value => valueOf(c, value)));
    if (count < c.values.length)
      values.append(element("button", {click: () => show(c.values.length)}, `${c.values.length - count} more values`));
  };
  show(6);
  return [
    element("h2", {}, collectiveName(c)),
    facts(["number", `${i + 1} of ${data.collectives.length}`],
          ["devices", `groups of ${c.group}`],
          ["sends", `${exactBytes(c.bytes)} on the wire per device`, "bytes"],
          ["receives", c.received === c.bytes ? "" : exactBytes(c.received)],
          ["takes", c.seconds === undefined ? "" : secondsText(c.seconds)],
          ["runs", c.times === 1 ? "" : `${c.times} times: ${costsText({bytes: stepBytes(c), seconds: c.seconds === undefined ? undefined : stepSeconds(c)})}`],
          ["in", c.drawing === 0 ? "" : data.drawings[c.drawing].title]),
    ...changesOf(c),
    element("h3", {}, c.values.length === 1 ? "What it moves" : `The ${c.values.length} values that it moves`),
    values,
  ];
}

function opPanel(drawing, v) {
  const {vertices, edges} = data.drawings[drawing];
  const vertex = vertices[v];
  const list = (from, to) => {
    const found = edges.filter(edge => edge[to] === v);
    return found.length === 0 ? null : element("div", {}, ...found.slice(0, 12).map(edge => element("div", {},
      element("button", {class: "code", click: () => selectVertex(drawing, edge[from])}, edge[3]), " ",
      layoutText(data.layouts[edge[2]].text))));
  };
  const bodies = (vertex.bodies ?? []).map(body =>
    element("button", {click: () => showDrawing(body)}, data.drawings[body].title));
  return [
    element("h2", {}, vertex.label),
    facts([vertex.kind === "local" ? "of the devices" : "op", code(vertex.text)], ["type", code(vertex.type)],
          ["rule", vertex.rule === undefined ? "" : code(vertex.rule), "rule"],
          ["line", vertex.line === undefined ? "" : code(vertex.line), "line"],
          ["scope", vertex.scope ?? ""], ["reads", list(0, 1)], ["is read by", list(1, 0)],
          ["bodies", bodies.length === 0 ? null : element("div", {}, ...bodies)]),
  ];
}
function selectVertex(drawing, v) {
  const {collective} = data.drawings[drawing].vertices[v];
  select(collective === undefined ? {drawing, vertex: v} : {collective});
}

function showPanel() {
  const panel = byId("panel");
  const content = selected.collective !== undefined ? collectivePanel(selected.collective)
                                                    : opPanel(selected.drawing, selected.vertex);
  panel.replaceChildren(element("button", {class: "close", "aria-label": "close", click: deselect}, "✕"), ...content);
  panel.classList.add("open");
  panel.scrollTop = 0;
  panel.focus({preventScroll: true});
}
