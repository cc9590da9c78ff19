// What stands above and below, and the start.
function fact(name, value, title) {
  byId("facts").append(element("div", {title}, element("dt", {}, name), element("dd", {}, value)));
}
function notice(isWrong, text, items = []) {
  byId("notices").append(element("div", {class: isWrong ? "notice wrong" : "notice"}, text,
    items.length === 0 ? null : element("ul", {class: "plain"}, ...items.map(item => element("li", {}, item)))));
}

function startFacts() {
  const {cost, proof, peak, times} = data;
  fact("mesh", data.mesh);
  fact("devices", data.devices);
  fact("collectives", cost.collectives);
  fact("bytes on the wire", bytesText(cost.bytes), `${exactBytes(cost.bytes)} per device and step`);
  if (cost.received !== cost.bytes) fact("received", bytesText(cost.received), `${exactBytes(cost.received)} per device and step`);
  if (cost.seconds !== undefined) fact("in collectives", secondsText(cost.seconds));
  fact(data.has_times ? "step" : "step, assumed links", secondsText(times.seconds), times.limit);
  fact("memory of a device", bytesText(peak.bytes), exactBytes(peak.bytes));
  fact("proof", proof.holds ? "✓ computes your program" : "✗ none",
       proof.holds ? Object.entries(proof.lemmas).map(([lemma, n]) => `${n} by ${lemma}`).join(", ") : proof.text);
  if (!proof.holds) notice(true, `What the devices run is not proven to compute the program: ${proof.text}`);
  for (const {pass, error} of data.left_out) notice(true, `The pass ${pass} was left out: ${error}`);
  if (data.conflicts.length > 0)
    notice(false, `${countText(data.conflicts.length, "conflict")}: tensors that disagree about a layout`, data.conflicts);
}

function startChoices() {
  const parts = [];
  const list = (title, items) => {
    if (items.length === 0) return;
    parts.push(element("details", {}, element("summary", {}, title),
                       element("ul", {class: "plain"}, ...items.map(item => element("li", {}, code(item))))));
  };
  list(`${countText(data.decisions.length, "choice")} of layouts, each with its reason`, data.decisions);
  list(`${countText(data.sharded_state.length, "variable")} laid out by weight-update sharding`,
       data.sharded_state.map(state => `${state.variable} ${state.layout} instead of ${state.asked}`));
  if (data.unseen > 0)
    parts.push(element("p", {class: "note"}, `${countText(data.unseen, "op")} of the program no device runs: folded, shared with equal ones, or read by none.`));
  if (parts.length === 0) byId("choices").remove();
  else byId("choices").append(...parts);
  byId("footer").textContent = `meshwork ${data.version}`;
}

startFacts();
startGraph();
startTimes();
startTables();
startChoices();
document.documentElement.dataset.ready = "1";
