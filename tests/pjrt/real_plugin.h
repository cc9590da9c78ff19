// A PJRT plugin, for tests: that of $MESHWORK_PJRT_PLUGIN. Without one each test is skipped (tests/pjrt/check brings one).
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "fmt/format.h"
#include "meshwork/runtime/pjrt/pjrt_backend.h"

namespace meshwork {

// "": there is none.
inline std::string RealPlugin() {
  const char* const path = std::getenv("MESHWORK_PJRT_PLUGIN");
  return path == nullptr ? "" : path;
}
// More than any mesh of a random program has.
inline constexpr int64_t kPjrtDevices = 16;
// As SessionOptions::devices.
inline std::string RealPjrtDevices() {
  return fmt::format("pjrt:{}:cpu_device_count={}", RealPlugin(), kPjrtDevices);
}

// Adds the plugin to `Base`, testing::Test or a test with a parameter.
template <typename Base>
class WithRealPlugin : public Base {
 protected:
  void SetUp() override {
    if (RealPlugin().empty()) GTEST_SKIP() << "MESHWORK_PJRT_PLUGIN names no plugin";
  }

  static std::unique_ptr<PjrtBackend> MakeBackend() { return PjrtBackend::Create(RealPjrtDevices()).value(); }
};

using RealPluginTest = WithRealPlugin<testing::Test>;

}  // namespace meshwork
