// The fixture of the tests of examples/mlp_mnist: four small data files, and the program run on them.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/base/random.h"
#include "meshwork/ir/type.h"
#include "support/temp_dir.h"
#include "tools/cli/process.h"

namespace meshwork {

inline constexpr int64_t kTrain = 28, kTest = 12;  // with batches of 16, the last one is short

// An IDX file of unsigned bytes.
inline std::string Idx(const Shape& shape, std::string_view bytes) {
  std::string file = {0, 0, 8, static_cast<char>(shape.size())};
  for (int64_t size : shape)
    for (int shift : {24, 16, 8, 0}) file += static_cast<char>(size >> shift & 0xff);
  return file.append(bytes);
}

inline std::string Images(int64_t n) {
  Random random(/*seed=*/1, static_cast<uint64_t>(n));
  std::string pixels;
  for (int64_t i = 0; i < n * 28 * 28; ++i)
    pixels += static_cast<char>(random.Below(4) == 0 ? random.Below(256) : 0);
  return Idx({n, 28, 28}, pixels);
}

inline std::string Labels(int64_t n) {
  std::string labels;
  for (int64_t i = 0; i < n; ++i) labels += static_cast<char>(i * 7 % 10);
  return Idx({n}, labels);
}

// Each test has a folder with a subfolder data/ of four IDX files.
class MlpMnistTest : public TempDirTest {
 protected:
  MlpMnistTest() {
    std::filesystem::create_directory(data());
    File("data/train-images-idx3-ubyte", Images(kTrain));
    File("data/train-labels-idx1-ubyte", Labels(kTrain));
    File("data/t10k-images-idx3-ubyte", Images(kTest));
    File("data/t10k-labels-idx1-ubyte", Labels(kTest));
  }

  std::string data() const { return Path("data"); }

  static Finished Run(const std::vector<std::string>& args, const std::vector<std::string>& settings = {}) {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    return RunProcess(MLP_MNIST, args, fmt::format("{}cli-{}-{}", testing::TempDir(), test.name(), getpid()),
                      settings);
  }

  // On the four files, one epoch in batches of 16.
  Finished Train(std::vector<std::string> args) const {
    args.insert(args.begin(), {"--data-dir", data(), "--epochs", "1", "--batch-size", "16"});
    return Run(args);
  }

  // Wrong input: exit code 2, this line on stderr where $ stands for the test's folder, nothing on stdout,
  // and no file made.
  void ExpectRejected(const Finished& finished, std::string_view message) const {
    std::string expected = "mlp_mnist: ";
    for (char c : message) {
      if (c == '$') expected += dir();
      else expected += c;
    }
    EXPECT_EQ(finished.err, expected + "\n");
    EXPECT_EQ(finished.out, "");
    EXPECT_EQ(finished.code, 2);
  }

  // Paths below the test's folder, sorted, without data/.
  std::vector<std::string> Written() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir())) {
      const std::string name = std::filesystem::relative(entry.path(), dir()).string();
      if (!name.starts_with("data")) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  nlohmann::json ReadJson(std::string_view name) const { return nlohmann::json::parse(Contents(Path(name))); }
};

}  // namespace meshwork
