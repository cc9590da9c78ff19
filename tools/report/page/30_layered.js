// Where the vertices of a drawing stand: in layers, from top to bottom. Takes about linear time.
const kColumn = 186, kRow = 92, kBox = 170, kBoxHeight = 50;
// Edges over more layers are not drawn; names at both of their ends stand for them.
const kLongest = 5;

// {layers: [[vertex, …], …], x: [], layer: [], width, short: edges, long: edges}, x of middles.
function layered(drawing) {
  const {vertices, edges} = drawing;
  const n = vertices.length;
  const into = vertices.map(() => []);
  for (const edge of edges) if (edge[0] < edge[1]) into[edge[1]].push(edge[0]);
  // What reads nothing – arguments, constants –, and collectives of such values: they stand above what reads them first.
  // `depth`: so many layers they need above it.
  const depth = new Int32Array(n);
  const isLoose = [];
  for (let v = 0; v < n; ++v) {
    isLoose.push(into[v].length === 0 || (vertices[v].collective !== undefined && into[v].every(from => isLoose[from])));
    for (const from of into[v]) depth[v] = Math.max(depth[v], depth[from] + 1);
  }
  // Others stand one layer below the lowest that they read.
  const layer = new Int32Array(n);
  for (let v = 0; v < n; ++v)
    for (const from of into[v]) layer[v] = Math.max(layer[v], (isLoose[from] ? depth[from] : layer[from]) + 1);
  const readers = vertices.map(() => []);
  for (const [from, to] of edges) if (isLoose[from] && from < to) readers[from].push(to);
  const firstReader = new Int32Array(n).fill(-1);
  for (let v = n - 1; v >= 0; --v) {
    for (const to of readers[v]) if (firstReader[v] < 0 || layer[to] < layer[firstReader[v]]) firstReader[v] = to;
    if (firstReader[v] >= 0) layer[v] = Math.max(0, layer[firstReader[v]] - 1);
  }
  const layers = [];
  for (let v = 0; v < n; ++v) {
    while (layers.length <= layer[v]) layers.push([]);
    layers[layer[v]].push(v);
  }

  const x = new Float64Array(n);
  // First, from above, each op below what it reads; then, from below, what is loose beside that.
  for (const row of layers) {
    const ops = row.filter(v => !isLoose[v]);
    const wanted = ops.map(v => {
      const near = into[v].filter(from => !isLoose[from] && layer[v] - layer[from] <= kLongest);
      return near.length === 0 ? 0 : near.reduce((sum, from) => sum + x[from], 0) / near.length;
    });
    spread(ops, wanted, x);
  }
  for (const row of [...layers].reverse()) {
    if (!row.some(v => isLoose[v])) continue;
    const beside = new Map();
    const wanted = row.map(v => {
      const reader = firstReader[v];
      if (!isLoose[v] || reader < 0) return x[v];
      const place = beside.get(reader) ?? 0;
      beside.set(reader, place + 1);
      const hasOther = into[reader].some(from => !isLoose[from] && layer[reader] - layer[from] <= 1);
      return x[reader] + (place + (hasOther ? 1 : 0)) * kColumn * 0.9;
    });
    spread(row, wanted, x);
  }

  let left = 0, right = 0;
  for (let v = 0; v < n; ++v) {
    left = Math.min(left, x[v]);
    right = Math.max(right, x[v]);
  }
  for (let v = 0; v < n; ++v) x[v] += kColumn / 2 + 20 - left;
  const isShort = edge => layer[edge[0]] < layer[edge[1]] && layer[edge[1]] - layer[edge[0]] <= kLongest;
  return {layers, layer, x, width: right - left + kColumn + 40, height: layers.length * kRow + 30,
          short: edges.filter(isShort), long: edges.filter(edge => !isShort(edge))};
}

// Gives the vertices of a row places a column apart, in the order of what they want and as near to it as can be: the
// least squares of isotonic regression, by pooling adjacent violators.
function spread(row, wanted, x) {
  const order = row.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b] || row[a] - row[b]);
  const pools = [];  // {sum, count}: of wanted[i] - i * kColumn
  order.forEach((i, place) => {
    pools.push({sum: wanted[i] - place * kColumn, count: 1});
    while (pools.length > 1) {
      const [a, b] = pools.slice(-2);
      if (a.sum / a.count <= b.sum / b.count) break;
      pools.splice(-2, 2, {sum: a.sum + b.sum, count: a.count + b.count});
    }
  });
  let place = 0;
  for (const {sum, count} of pools)
    for (let k = 0; k < count; ++k, ++place) x[row[order[place]]] = sum / count + place * kColumn;
}
