// How the statements of a page show their values to the test.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/graph.h"

namespace meshwork::docs {

// A line that parts the output of one block from that of the next.
inline constexpr std::string_view kBlockMark = "\x1e block ";
inline void BeginBlock(int index) { fmt::print("{}{}\n", kBlockMark, index); }

template <typename T>
std::string ValueText(const T& value) {
  if constexpr (requires { value.ToString(); }) return value.ToString();
  else return fmt::format("{}", value);
}
template <size_t n>
std::string ValueText(const absl::InlinedVector<int64_t, n>& list) {
  return fmt::format("[{}]", fmt::join(list, ","));
}
template <typename T>
std::string ValueText(const absl::StatusOr<T>& value) {
  return value.ok() ? ValueText(*value) : std::string(MessageOf(value.status()));
}

template <typename T>
void Say(const T& value) {
  fmt::print("{}\n", ValueText(value));
}

// Ends the program where a page's graph holds a mistake.
inline void ExpectOk(const Graph& graph) {
  if (graph.status().ok()) return;
  fmt::print(stderr, "{}\n", MessageOf(graph.status()));
  std::exit(1);
}

}  // namespace meshwork::docs
