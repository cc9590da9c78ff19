// The tables of collectives and of cheaper layouts.
const kFirstRows = 100;
const columns = [
  {name: "#", of: i => i + 1, isNumber: true},
  {name: "op", of: i => data.collectives[i].op},
  {name: "axes", of: i => data.collectives[i].axes},
  {name: "value", of: i => { const {values} = data.collectives[i];
                             return (values[0]?.name ?? values[0]?.type ?? "") + (values.length > 1 ? ` and ${values.length - 1} more` : ""); }},
  {name: "line", of: i => lineOf(data.collectives[i])},
  {name: "bytes", of: i => data.collectives[i].bytes, isNumber: true, text: bytesText},
  {name: "times", of: i => data.collectives[i].times, isNumber: true},
  {name: "bytes per step", of: i => stepBytes(data.collectives[i]), isNumber: true, text: bytesText},
  ...(data.has_times ? [{name: "time per step", of: i => stepSeconds(data.collectives[i]), isNumber: true, text: secondsText}] : []),
];
let sortedBy = 0, isDescending = false, showsAll = false;
const tableBody = element("tbody"), tableHead = element("tr");

function sortBy(column) {
  isDescending = sortedBy === column ? !isDescending : columns[column].isNumber === true && column !== 0;
  sortedBy = column;
  drawTable();
}

function drawTable() {
  tableHead.replaceChildren(...columns.map((column, i) => element("th", {
    class: column.isNumber ? "number" : null,
    "aria-sort": i !== sortedBy ? "none" : isDescending ? "descending" : "ascending", scope: "col",
  }, element("button", {click: () => sortBy(i)}, column.name + (i !== sortedBy ? "" : isDescending ? " ▼" : " ▲")))));
  const key = columns[sortedBy].of;
  const order = data.collectives.map((_, i) => i);
  order.sort((a, b) => {
    const x = key(a), y = key(b);
    return (x < y ? -1 : x > y ? 1 : 0) * (isDescending ? -1 : 1) || a - b;
  });
  const rows = showsAll ? order : order.slice(0, kFirstRows);
  tableBody.replaceChildren(...rows.map(rowOf));
  if (rows.length < order.length)
    tableBody.append(element("tr", {}, element("td", {colspan: columns.length}, element("button", {click: () => {
      showsAll = true;
      drawTable();
    }}, `${order.length - rows.length} more`))));
}

function rowOf(i) {
  const cells = columns.map(({of, isNumber, text}, k) => {
    const value = of(i), shownValue = text === undefined ? String(value) : text(value);
    const content = k === 1 ? element("button", {"data-collective": i, click: event => {
      event.stopPropagation();
      select({collective: i});
    }}, shownValue) : k === 3 || k === 4 ? code(shownValue) : shownValue;
    return element("td", {class: isNumber ? "number" : null, title: text === bytesText ? exactBytes(value) : null}, content);
  });
  return element("tr", {class: selected?.collective === i ? "row chosen" : "row", "data-row": i,
                        click: () => select({collective: i})}, ...cells);
}

function startTables() {
  if (data.collectives.length === 0) {
    byId("collectives").append(element("p", {}, "There are none: no device needs what another holds."));
  } else {
    byId("collectives").append(element("div", {class: "scrolled"}, element("table", {}, element("thead", {}, tableHead), tableBody)));
    drawTable();
  }
  onSelect(what => {
    for (const row of tableBody.rows)
      if (row.dataset.row !== undefined) row.classList.toggle("chosen", Number(row.dataset.row) === what?.collective);
  });

  const {changes, layouts, tried} = data.alternatives, all = byId("alternatives");
  if (changes.length > 0) {
    const number = (text, title) => element("td", {class: "number", title}, text);
    const head = ["value", "layout", "instead of", "line", "collectives", "bytes per step", ...(data.has_times ? ["time per step"] : []), "memory"];
    const row = ({value, others, from: was, to: is, line, cost}) => element("tr", {},
      element("td", {}, code(value), othersText(others)), element("td", {}, layoutText(is)), element("td", {}, layoutText(was)),
      element("td", {}, code(line)), number(cost.collectives), number(bytesText(cost.bytes), exactBytes(cost.bytes)),
      data.has_times ? number(secondsText(cost.seconds)) : null, number(bytesText(cost.peak_bytes), exactBytes(cost.peak_bytes)));
    const now = element("tr", {}, element("td", {colspan: 4}, "as it is"), number(data.cost.collectives),
                        number(bytesText(data.cost.bytes), exactBytes(data.cost.bytes)),
                        data.has_times ? number(secondsText(data.cost.seconds)) : null,
                        number(bytesText(data.cost.peak_bytes), exactBytes(data.cost.peak_bytes)));
    all.append(element("p", {class: "note"}, "Each changes the layout of one value, or of one in every layer that repeats; what it costs was compiled."),
               element("div", {class: "scrolled"}, element("table", {},
                 element("thead", {}, element("tr", {}, ...head.map((name, i) => element("th", {class: i > 3 ? "number" : null}, name)))),
                 element("tbody", {}, now, ...changes.map(row)))));
  }
  const said = layouts === 0 ? "No other layouts were looked at: the program pins none, or none were asked for."
    : tried < layouts ? `Of ${layouts} other layouts ${tried} were looked at.`
    : `All ${countText(layouts, "layout")} that differ in one step were looked at.`;
  all.append(element("p", {class: "note"}, (changes.length === 0 && tried > 0 ? "None is cheaper. " : "") + said));
}
