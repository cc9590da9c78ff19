#include "meshwork/runtime/cpu/run_transfers.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/cpu/worker_pool.h"
#include "meshwork/runtime/tensor/stream_copy.h"

namespace meshwork::run_transfers_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// Sums of floats depend on the order of the terms: it must be the order of the sources, for any number of them.
TEST(RunTransfersTest, ReducesInTheOrderOfTheSources) {
  for (int n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 63, 64, 65, 130, 200}) {
    constexpr int kElements = 5000;
    std::vector<std::vector<float>> values(n, std::vector<float>(kElements));
    std::vector<float> expected(kElements);
    for (int k = 0; k < n; ++k) {
      for (int i = 0; i < kElements; ++i) {
        values[k][i] =
            std::sin(static_cast<float>(i * 7 + k * 13)) * std::pow(10.0f, static_cast<float>(k % 7));
        expected[i] = k == 0 ? values[k][i] : expected[i] + values[k][i];
      }
    }
    std::vector<float> to(kElements);
    std::vector<std::byte*> addresses = {reinterpret_cast<std::byte*>(to.data())};
    Transfer transfer;
    transfer.box = BoxCopy::Linear(kElements);
    transfer.to = 0;
    for (int k = 0; k < n; ++k) {
      addresses.push_back(reinterpret_cast<std::byte*>(values[k].data()));
      transfer.from.push_back(k + 1);
    }
    const std::vector<WorkSlice> slices = {{0, 0, 33}, {0, 4100, kElements}, {0, 33, 4100}};
    RunTransfers({&transfer, 1}, slices, addresses);
    ASSERT_EQ(std::memcmp(to.data(), expected.data(), kElements * sizeof(float)), 0) << n << " sources";
  }
}

TEST(RunTransfersTest, ReducesABoxIntoAnother) {
  // Column 1 of two [3,2] buffers, summed into column 0 of a [3,3] one.
  const std::vector<int32_t> a = {1, 2, 3, 4, 5, 6}, b = {10, 20, 30, 40, 50, 60};
  std::vector<int32_t> to(9, 0);
  Transfer transfer;
  transfer.box = BoxCopy({{0, 3}, {1, 1}}, {{0, 0}, {3, 2}}, {{0, 1}, {3, 3}});
  transfer.dtype = I32;
  transfer.to = 0;
  transfer.from = {1, 2};
  std::byte* const addresses[] = {reinterpret_cast<std::byte*>(to.data()),
                                  reinterpret_cast<std::byte*>(const_cast<int32_t*>(a.data())),
                                  reinterpret_cast<std::byte*>(const_cast<int32_t*>(b.data()))};
  const std::vector<WorkSlice> slices = {{0, 0, 3}};
  RunTransfers({&transfer, 1}, slices, addresses);
  EXPECT_THAT(to, ElementsAre(22, 0, 0, 44, 0, 0, 66, 0, 0));
}

// sum = a + b over 100 elements: worker 0 adds 64 of them, worker 1 the rest. Addresses may change between
// steps.
TEST(RunTransfersTest, EachWorkerDoesItsSlices) {
  Transfer transfer;
  transfer.box = BoxCopy::Linear(100);
  transfer.to = 0;
  transfer.from = {1, 2};
  const std::vector<WorkSlice> slices[] = {{{0, 0, 64}}, {{0, 64, 100}}};
  std::vector<float> sum(100, 0), a(100), b(100, 2), other(100, 40);
  const auto pointer = [](std::vector<float>& v) { return reinterpret_cast<std::byte*>(v.data()); };
  std::vector<std::byte*> addresses = {pointer(sum), pointer(a), pointer(b)};
  WorkerPool pool(2);
  const auto run = [&](int worker) { RunTransfers({&transfer, 1}, slices[worker], addresses); };
  for (int step = 0; step < 3; ++step) {
    a.assign(100, static_cast<float>(step));
    pool.Run(run);
    EXPECT_THAT(sum, Each(2.0f + static_cast<float>(step)));
  }
  addresses[1] = pointer(other);
  pool.Run(run);
  EXPECT_THAT(sum, Each(42.0f));
}

// Buffers of a program with one collective, for comparison with a plain loop.
struct Buffers {
  std::vector<std::vector<std::byte>> bytes;

  BufferId Add(int64_t size) {
    bytes.emplace_back(static_cast<size_t>(size) + kGuard, std::byte{0xAB});
    return static_cast<BufferId>(bytes.size() - 1);
  }
  std::vector<std::byte*> Addresses(int64_t skew) {
    std::vector<std::byte*> addresses;
    for (auto& buffer : bytes) addresses.push_back(buffer.data() + skew);
    return addresses;
  }
  static constexpr size_t kGuard = 256;
};

// Several targets of the same sources get the same bytes, whether they are written together or alone, for sizes
// that bypass the caches and sizes that do not, at any address.
TEST(RunTransfersTest, WhatReadsTheSameIsDoneTogether) {
  const int64_t large = StreamingThreshold() / 3 / 4 + 1001;
  for (const int64_t elements : {int64_t{1}, int64_t{1000}, int64_t{50001}, large}) {
    for (const int num_sources : {1, 3}) {
      for (const int64_t skew : {0, 4, 20}) {
        SCOPED_TRACE(fmt::format("{} elements, {} sources, skew {}", elements, num_sources, skew));
        Buffers buffers;
        Transfer transfer;
        transfer.box = BoxCopy::Linear(elements);
        transfer.dtype = I32;
        for (int k = 0; k < num_sources; ++k) transfer.from.push_back(buffers.Add(elements * 4));
        std::vector<Transfer> transfers;
        std::vector<WorkSlice> slices;
        for (int target = 0; target < 3; ++target) {
          transfer.to = buffers.Add(elements * 4);
          transfers.push_back(transfer);
          slices.push_back({target, 0, elements / 2});
          slices.push_back({target, elements / 2, elements});
        }
        const std::vector<std::byte*> addresses = buffers.Addresses(skew);
        std::vector<int32_t> expected(static_cast<size_t>(elements), 0);
        for (int k = 0; k < num_sources; ++k) {
          for (int64_t i = 0; i < elements; ++i) {
            const auto value = static_cast<int32_t>(i * 31 + k * 17);
            std::memcpy(addresses[k] + i * 4, &value, 4);
            expected[i] += value;
          }
        }
        SortByWhatIsRead(transfers, slices);
        EXPECT_EQ(slices[0].begin, slices[1].begin);
        EXPECT_EQ(slices[0].begin, slices[2].begin);
        RunTransfers(transfers, slices, addresses);
        for (const Transfer& done : transfers) {
          ASSERT_EQ(std::memcmp(addresses[done.to], expected.data(), static_cast<size_t>(elements) * 4), 0);
          const auto& buffer = buffers.bytes[done.to];
          for (int64_t i = 0; i < skew; ++i) ASSERT_EQ(buffer[i], std::byte{0xAB});
          for (size_t i = skew + elements * 4; i < buffer.size(); ++i) ASSERT_EQ(buffer[i], std::byte{0xAB});
        }
      }
    }
  }
}

// Transfers from another part of the same source, or to another place, are not done together.
TEST(RunTransfersTest, WhatReadsOtherPartsIsNotDoneTogether) {
  std::vector<int32_t> from = {1, 2, 3, 4, 5, 6}, to(6, 0), other(6, 0);
  std::vector<Transfer> transfers(3);
  for (Transfer& transfer : transfers) transfer.dtype = I32, transfer.from = {0}, transfer.to = 1;
  transfers[0].box = BoxCopy({{0, 2}}, {{0}, {6}}, {{0}, {6}});
  transfers[1].box = BoxCopy({{4, 2}}, {{0}, {6}}, {{0}, {6}});
  transfers[2].box = BoxCopy({{0, 2}}, {{0}, {6}}, {{-4}, {6}});
  transfers[2].to = 2;
  std::vector<WorkSlice> slices = {{0, 0, 2}, {1, 0, 2}, {2, 0, 2}};
  std::byte* const addresses[] = {reinterpret_cast<std::byte*>(from.data()),
                                  reinterpret_cast<std::byte*>(to.data()),
                                  reinterpret_cast<std::byte*>(other.data())};
  SortByWhatIsRead(transfers, slices);
  RunTransfers(transfers, slices, addresses);
  EXPECT_THAT(to, ElementsAre(1, 2, 0, 0, 5, 6));
  EXPECT_THAT(other, ElementsAre(0, 0, 0, 0, 1, 2));
}

TEST(StreamCopyTest, CopiesEverySizeFromAndToEveryAddress) {
  constexpr int64_t kMost = 5 * 16384 + 1000;
  std::vector<std::byte> from(kMost + 128), to(kMost + 256);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256);
  for (const int64_t bytes : {0, 1, 63, 64, 65, 1000, 4096, 16383, 16384, 16448, 16500, 40000, int{kMost}}) {
    for (const int64_t into : {0, 1, 8, 63, 64}) {
      for (const int64_t out_of : {0, 3, 64}) {
        for (const auto copy : {StreamCopy, StreamLines}) {
          std::fill(to.begin(), to.end(), std::byte{0xAB});
          copy(to.data() + into, from.data() + out_of, bytes);
          ASSERT_EQ(std::memcmp(to.data() + into, from.data() + out_of, static_cast<size_t>(bytes)), 0)
              << bytes;
          for (int64_t i = 0; i < into; ++i) ASSERT_EQ(to[i], std::byte{0xAB}) << bytes;
          for (size_t i = into + bytes; i < to.size(); ++i) ASSERT_EQ(to[i], std::byte{0xAB}) << bytes;
        }
      }
    }
  }
}

}  // namespace
}  // namespace meshwork::run_transfers_test
