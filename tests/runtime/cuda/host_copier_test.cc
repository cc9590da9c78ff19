#include "meshwork/runtime/cuda/host_copier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "meshwork/base/status.h"
#include "support/forks.h"

namespace meshwork::host_copier_test {
namespace {

// Tensors of `sizes` bytes, none of which begins at a cache line. Between them lies a byte that is never written.
struct HostTensors {
  explicit HostTensors(const std::vector<int64_t>& sizes) {
    int64_t bytes = 1;
    for (int64_t size : sizes) bytes += size + 1;
    for (int64_t i = 0; i < bytes; ++i) from.push_back(static_cast<std::byte>(i * 7 + i / 251));
    to.assign(from.size(), kUntouched);
    int64_t at = 1;
    for (int64_t size : sizes) {
      copies.push_back({to.data() + at, from.data() + at, size});
      at += size + 1;
    }
  }
  // The expected content of `to` after all copies.
  std::vector<std::byte> Expected() const {
    std::vector<std::byte> expected(to.size(), kUntouched);
    for (const HostCopy& copy : copies)
      std::copy_n(copy.from, copy.bytes, expected.begin() + (copy.to - to.data()));
    return expected;
  }

  static constexpr std::byte kUntouched{0xEE};
  std::vector<std::byte> from, to;
  std::vector<HostCopy> copies;
};

const std::vector<int64_t> kSizes = {0, 1, 100, 0, 99, 64, 5000, 131, 12345, 0};

HostCopierOptions InPieces(int helpers, int64_t piece_bytes) {
  return {.helpers = helpers, .piece_bytes = piece_bytes, .large_bytes = 0};
}

TEST(HostCopierTest, SaysWhichBytesAreThereInTheirOrder) {
  for (int helpers : {0, 1, 3}) {
    for (int64_t piece : {1, 100, 4096, 1 << 20}) {
      SCOPED_TRACE(fmt::format("{} helpers, pieces of {}", helpers, piece));
      HostCopier copier(InPieces(helpers, piece));
      for (int again = 0; again < 3; ++again) {
        HostTensors tensors(kSizes);
        std::vector<int64_t> arrived(kSizes.size(), 0);
        size_t last = 0;
        const absl::Status status = copier.Stage(tensors.copies, [&](size_t i, int64_t first, int64_t bytes) {
          EXPECT_GE(i, last);
          last = i;
          EXPECT_EQ(first, arrived[i]);
          EXPECT_GT(bytes, 0);
          const HostCopy& copy = tensors.copies[i];
          EXPECT_TRUE(std::equal(copy.from + first, copy.from + first + bytes, copy.to + first));
          arrived[i] += bytes;
          return absl::OkStatus();
        });
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_EQ(arrived, kSizes);
        EXPECT_EQ(tensors.to, tensors.Expected());
      }
    }
  }
}

TEST(HostCopierTest, CopiesBack) {
  for (int helpers : {0, 2}) {
    HostCopier copier(InPieces(helpers, 1000));
    HostTensors tensors(kSizes);
    copier.Copy(tensors.copies);
    EXPECT_EQ(tensors.to, tensors.Expected());
    copier.Copy({});
  }
}

TEST(HostCopierTest, OnlyLargeCopiesStartThreads) {
  HostCopier copier({.helpers = 3, .piece_bytes = 100, .large_bytes = 1000});
  HostTensors small({500, 499}), two({1, 150}), large({500, 500});
  copier.Copy(small.copies);
  EXPECT_EQ(copier.num_helpers(), 0);
  copier.Copy(large.copies);
  EXPECT_EQ(copier.num_helpers(), 3);
  copier.Copy(large.copies);
  EXPECT_EQ(copier.num_helpers(), 3);
  HostCopier few(InPieces(3, 100));
  few.Copy(two.copies);  // three pieces: one is the caller's
  EXPECT_EQ(few.num_helpers(), 2);
}

// After an error no thread touches the memory, which is freed here, and the next call works.
TEST(HostCopierTest, EndsWithTheFirstError) {
  for (int helpers : {0, 1, 3}) {
    HostCopier copier(InPieces(helpers, 64));
    for (int nth = 1; nth < 30; ++nth) {
      HostTensors tensors({4000, 3000});
      int calls = 0;
      const auto fail = [&](size_t, int64_t, int64_t) {
        return ++calls < nth ? absl::OkStatus() : absl::AbortedError("stop");
      };
      const absl::Status status = copier.Stage(tensors.copies, fail);
      if (status.ok()) EXPECT_LT(calls, nth);  // many pieces were ready together
      else EXPECT_EQ(calls, nth);
    }
    HostTensors thrown({4000, 3000});
    const auto throws = [](size_t, int64_t, int64_t) -> absl::Status { throw std::runtime_error("stop"); };
    EXPECT_THROW(copier.Stage(thrown.copies, throws).IgnoreError(), std::runtime_error);
    HostTensors whole({4000, 3000});
    copier.Copy(whole.copies);
    EXPECT_EQ(whole.to, whole.Expected());
  }
}

// Without helper threads.
TEST(HostCopierTest, CopiesAloneInTheChildOfAFork) {
  if (!kMayFork) GTEST_SKIP();
  auto copier = std::make_unique<HostCopier>(InPieces(2, 64));
  HostTensors tensors({4000, 3000});
  copier->Copy(tensors.copies);
  EXPECT_EQ(copier->num_helpers(), 2);
  const std::string said = SaidByChild([&] {
    HostTensors own({4000, 3000});
    copier->Copy(own.copies);
    copier.reset();
    return std::string(own.to == own.Expected() ? "copied" : "wrong");
  });
  EXPECT_EQ(said, "copied");
}

}  // namespace
}  // namespace meshwork::host_copier_test
