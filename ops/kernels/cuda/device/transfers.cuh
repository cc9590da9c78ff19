// ---- Transfers of regions (ops/kernels/cuda/transfers.h).
struct Transfer {
  long long first_block, elements, run, from_offset, to_offset, num_dims, dims;
  unsigned long long to;
  long long num_sources, sources;
  unsigned long long fill;
};
// The last one that begins at this block or before.
__device__ inline const Transfer& TransferOf(const Transfer* table, long long count, long long block) {
  long long low = 0, high = count - 1;
  while (low < high) {
    const long long middle = (low + high + 1) / 2;
    if (table[middle].first_block <= block) low = middle;
    else high = middle - 1;
  }
  return table[low];
}
__device__ inline void PlaceOf(const Transfer& transfer, const long long* numbers, long long index, long long* from,
                               long long* to) {
  long long row = index / transfer.run;
  *from = transfer.from_offset + index % transfer.run;
  *to = transfer.to_offset + index % transfer.run;
  for (long long d = transfer.num_dims; d-- > 0;) {
    const long long* const dim = numbers + transfer.dims + 3 * d;
    *from += row % dim[0] * dim[1];
    *to += row % dim[0] * dim[2];
    row /= dim[0];
  }
}
