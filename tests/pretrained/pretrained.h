// Models that somebody trained and published, beside what other programs compute with them. tests/pretrained/check makes a
// folder of both and runs these tests on it; without one they are skipped.
//
//   $PRETRAINED_DIR/minilm/model.safetensors      the published weights
//   $PRETRAINED_DIR/minilm/expected.safetensors   inputs, and what references.py computes with them
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork.h"

namespace meshwork {

class PretrainedTest : public testing::Test {
 protected:
  static constexpr const char* kMeshes[] = {"model=1", "model=2", "model=3", "batch=2,model=2",
                                            "batch=2,model=3"};

  // `model`: the name of its folder.
  explicit PretrainedTest(const std::string& model) : model_(model) {}

  void SetUp() override {
    const char* const all = std::getenv("PRETRAINED_DIR");
    if (all == nullptr)
      GTEST_SKIP() << "PRETRAINED_DIR names no folder of models; ./dev pretrained makes one";
    dir_ = fmt::format("{}/{}", all, model_);
    auto expected = ReadSafetensors(dir_ + "/expected.safetensors");
    ASSERT_TRUE(expected.ok()) << expected.status();
    expected_ = {expected->begin(), expected->end()};
  }

  const std::string& dir() const { return dir_; }
  const Tensor& Expected(const std::string& name) const { return expected_.at(name); }

  // |have - Expected(name)| <= tolerance max|Expected(name)|, element by element. Prints the largest difference.
  void ExpectNear(const std::string& mesh, const std::string& name, const Tensor& have,
                  double tolerance) const {
    const Tensor& want = Expected(name);
    ASSERT_EQ(have.shape(), want.shape());
    const Tensor a = have.Cast(F64), b = want.Cast(F64);
    double difference = 0, largest = 0;
    for (size_t i = 0; i < static_cast<size_t>(a.num_elements()); ++i) {
      const double x = a.values<double>()[i], y = b.values<double>()[i];
      ASSERT_TRUE(std::isfinite(x)) << i;
      difference = std::max(difference, std::abs(x - y));
      largest = std::max(largest, std::abs(y));
    }
    fmt::print("{}: {} on {} differs by {:.1e} of {:.3g}\n", model_, name, mesh, difference, largest);
    EXPECT_LE(difference, tolerance * largest);
  }

 private:
  std::string model_, dir_;
  std::map<std::string, Tensor> expected_;
};

}  // namespace meshwork
