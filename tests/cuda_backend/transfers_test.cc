// The kernels that move and reduce data give the same bytes as the CPU's transfers, for every type and reduction.
#include "meshwork/ops/kernels/cuda/transfers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "meshwork/runtime/cpu/run_transfers.h"
#include "meshwork/tools/check/double_tensor.h"
#include "support/cuda_player.h"

namespace meshwork::transfers_test {
namespace {

// Rows 1 and 2 of [4,6], from each of `sources` buffers to rows 0 and 1 of [3,5], columns 2 to 5.
Transfer TransferOf(DType dtype, ReduceOp op, int sources) {
  Transfer transfer{.box = BoxCopy({{1, 2}, {2, 4}}, {{0, 0}, {4, 6}}, {{1, 1}, {3, 5}}),
                    .dtype = dtype,
                    .op = op,
                    .to = 0};
  for (int s = 1; s <= sources; ++s) transfer.from.push_back(s);
  transfer.fill = {std::byte{1}};
  return transfer;
}

CudaKernel KernelOf(const Transfer& transfer) {
  return transfer.from.size() > 1 ? CudaReduceKernel(transfer.dtype, transfer.op)
                                  : CudaMoveKernel(DTypeSize(transfer.dtype));
}

// Buffer 0 is the target, the others are sources.
std::vector<std::vector<std::byte>> BuffersFor(const Transfer& transfer) {
  const double numbers[] = {1.5, -2, 0.0, -0.0, 3, 0.25, -1, 2};
  std::vector<std::vector<std::byte>> buffers;
  for (size_t b = 0; b <= transfer.from.size(); ++b) {
    DoubleTensor tensor{{transfer.dtype, b == 0 ? Shape{3, 5} : Shape{4, 6}}, {}};
    for (int64_t i = 0; i < tensor.type.num_elements(); ++i) {
      const double number =
          numbers[static_cast<size_t>(i + 3 * static_cast<int64_t>(b)) % std::size(numbers)];
      const bool is_unsigned = transfer.dtype == U8 || transfer.dtype == BOOL;
      tensor.values.push_back(is_unsigned ? (number > 1 ? 1 : 0) : number);
    }
    buffers.push_back(ToBytes(tensor));
  }
  return buffers;
}

TEST(CudaTransfersTest, WriteWhatTheCpuWrites) {
  std::vector<Transfer> all;
  for (DType dtype : kAllDTypes) {
    for (int sources : {0, 1}) all.push_back(TransferOf(dtype, ReduceOp::kSum, sources));
    for (ReduceOp op : kAllReduceOps) {
      if ((op == ReduceOp::kAnd || op == ReduceOp::kOr) && dtype != BOOL) continue;  // they are of bools
      for (int sources : {2, 5}) all.push_back(TransferOf(dtype, op, sources));
    }
  }
  std::vector<CudaKernel> kernels;
  for (const Transfer& transfer : all) kernels.push_back(KernelOf(transfer));
  const auto played = PlayCuda(CudaSourceOf(kernels));
  ASSERT_TRUE(played.ok()) << played.status();
  for (const Transfer& transfer : all) {
    std::vector<std::vector<std::byte>> expected = BuffersFor(transfer), given = BuffersFor(transfer);
    std::vector<std::byte*> addresses;
    for (std::vector<std::byte>& buffer : expected) addresses.push_back(buffer.data());
    const WorkSlice whole{0, 0, transfer.box.elements()};
    RunTransfers({&transfer, 1}, {&whole, 1}, addresses);

    std::vector<int64_t> numbers;
    for (const BoxCopy::Dim& dim : transfer.box.dims())
      numbers.insert(numbers.end(), {dim.count, dim.from_stride, dim.to_stride});
    CudaTransfer table{.elements = transfer.box.elements(), .run = transfer.box.run()};
    table.from_offset = transfer.box.from_offset();
    table.to_offset = transfer.box.to_offset();
    table.num_dims = std::ssize(transfer.box.dims());
    table.to = reinterpret_cast<uint64_t>(given[0].data());
    table.num_sources = std::ssize(transfer.from);
    table.sources = std::ssize(numbers);
    std::memcpy(&table.fill, transfer.fill.data(), sizeof(table.fill));
    for (size_t s = 1; s < given.size(); ++s) numbers.push_back(reinterpret_cast<int64_t>(given[s].data()));
    const CudaTransfer* tables = &table;
    long long count = 1;
    const int64_t* first = numbers.data();
    void* arguments[] = {&tables, &count, &first};
    const CudaKernel kernel = KernelOf(transfer);
    const absl::Status status =
        (*played)->Launch(kernel.name, {1}, {static_cast<unsigned>(kernel.threads)}, 0, arguments);
    ASSERT_TRUE(status.ok()) << kernel.name << ": " << status;
    EXPECT_EQ(given[0], expected[0]) << kernel.name << " of " << transfer.from.size();
  }
}

}  // namespace
}  // namespace meshwork::transfers_test
