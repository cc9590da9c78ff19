// The library's messages about mistakes: each mistake with its message, in tests/errors/<area>.txt.
//
//   ExpectErrors("mesh", {
//       MISTAKE(Mesh::Parse("a=-3")),                                             // called by its own text
//       {"seventeen axes", [] { return Mesh::Create(std::vector<Axis>(17)); }},
//   });
//
// The files are compared exactly and rewritten with UPDATE_GOLDEN=1 (support/golden.h). Sources_test.cc
// compares them with the library's sources: every message in the sources occurs in one of these files.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/call_site.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// The status of a Status or a StatusOr.
class Refusal {
 public:
  Refusal(absl::Status status) : status_(std::move(status)) {}  // NOLINT: implicit, for lambdas
  template <typename T>
  Refusal(const absl::StatusOr<T>& result) : status_(result.status()) {}  // NOLINT
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

// The message is made at construction: compiling a std::function for each mistake would double g++'s time.
struct Mistake {
  Mistake(std::string_view name, const Refusal& refusal, CallSite site = CallSite::Current());
  template <std::invocable Make>
  Mistake(std::string_view name, Make make, CallSite site = CallSite::Current())
      : Mistake(name, Refusal(make()), site) {}

  std::string name;
  absl::Status status;
  CallSite site;
};

// The statement's own text is the name. Where it builds a program, its graph is `g`.
#define MISTAKE(...) ::meshwork::Mistake(#__VA_ARGS__, [&]() -> ::meshwork::Refusal { return __VA_ARGS__; }())
#define GRAPH_MISTAKE(...)                                                   \
  ::meshwork::Mistake(#__VA_ARGS__, [&]() -> ::meshwork::Refusal {           \
    ::meshwork::Graph g(::meshwork::Mesh::Parse("batch=2,model=4").value()); \
    __VA_ARGS__;                                                             \
    return g.status();                                                       \
  }())

// Compares the message of every mistake with tests/errors/<area>.txt. There, the message's own place in the
// test reads "@", and each text of `hidden` (a directory of this run) is replaced by the text beside it.
void ExpectErrors(std::string_view area, const std::vector<Mistake>& mistakes,
                  const std::vector<std::pair<std::string, std::string>>& hidden = {});

// Each line behind four spaces.
std::string Indented(const std::string& text);

}  // namespace meshwork
