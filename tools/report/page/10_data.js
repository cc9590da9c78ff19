// The data of the report (tools/report/report_json.cc), and how it is written.
const data = JSON.parse(document.getElementById("data").textContent);

const byId = id => document.getElementById(id);

// element("p", {class: "note"}, "text", otherElement, …); a function as attribute is a listener.
function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}
function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}
function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(key, value);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}
const code = text => element("code", {}, text);

// 192000 -> "192 kB": three digits.
function inUnits(n, units, step) {
  let unit = 0;
  while (Math.abs(n) >= step && unit + 1 < units.length) {
    n /= step;
    ++unit;
  }
  const digits = unit === 0 ? 0 : n < 10 ? 2 : n < 100 ? 1 : 0;
  return `${n.toFixed(digits)} ${units[unit]}`;
}
const bytesText = n => inUnits(n, ["B", "kB", "MB", "GB", "TB", "PB"], 1000);
const exactBytes = n => `${n.toString().replace(/\B(?=(\d{3})+$)/g, "\u202f")} B`;
function secondsText(s) {
  if (s === 0) return "0 s";
  if (s < 1e-3) return `${Number((s * 1e6).toPrecision(3))} µs`;
  if (s < 1) return `${Number((s * 1e3).toPrecision(3))} ms`;
  return `${Number(s.toPrecision(3))} s`;
}
const countText = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

// ---- Layouts and their colours: one for each set of axes that cut a value, those of one axis first.

const cutNumber = new Map();
{
  const cuts = [...new Set(data.layouts.map(layout => layout.cut))].filter(cut => cut !== "");
  const numAxes = cut => cut.split(",").length;
  cuts.sort((a, b) => numAxes(a) - numAxes(b) || (a < b ? -1 : 1));
  cuts.forEach((cut, i) => cutNumber.set(cut, i));
}
const layoutByText = new Map(data.layouts.map(layout => [layout.text, layout]));
const colourOf = layout =>
  layout === undefined || layout.cut === "" ? "var(--muted)" : `var(--series${cutNumber.get(layout.cut) % 8})`;
// More than eight sets: the colours come again, dotted.
const isAgain = layout => layout !== undefined && layout.cut !== "" && cutNumber.get(layout.cut) >= 8;

function chipOf(layout) {
  return element("span", {class: layout !== undefined && layout.partial ? "chip partial" : "chip",
                          style: `--c:${colourOf(layout)}`});
}
const layoutText = text => element("span", {}, chipOf(layoutByText.get(text)), code(text));

const collectiveName = c => c.axes === "()" ? c.op : `${c.op} over ${c.axes}`;
const stepBytes = c => c.bytes * c.times;
const stepSeconds = c => (c.seconds ?? 0) * c.times;
// Values of other layers that change with one.
const othersText = others => others > 0 ? `, and ${others} like it` : "";
const lineOf = c => c.values.map(value => value.line).find(line => line !== "") ?? "";
