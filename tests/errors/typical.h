// Typical mistakes of new users (errors/mistakes_test.cc).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork.h"

namespace meshwork {

struct TypicalMistake {
  std::string title;
  std::function<std::string()>
      make;  // what the user is told; "fine: " and what is given where it is no mistake
};

std::vector<TypicalMistake> DeclarationMistakes();  // of inputs, variables, layouts and shapes
std::vector<TypicalMistake> OpMistakes();           // of operands
std::vector<TypicalMistake> ProgramMistakes();      // of handles, loops, regions, sessions and feeds
std::vector<TypicalMistake> ForeignMistakes();      // what users of other libraries bring along

// A program on mesh [batch=4, model=2] and what is said of it.
struct Attempt {
  Graph g{Mesh::VirtualCpus("batch=4,model=2").value()};

  // x: f32[8,4] by examples.
  Value Images() { return g.Input("x", F32, {8, 4}, {"batch", UNSHARDED}); }
  // What Session::Create says, or that it is fine.
  std::string Say(const SessionOptions& options = {});
  // The same; if the session can be made, what Run says.
  std::string SayOfRun(const Feeds& feeds);
};

std::string Say(const absl::Status& status);

}  // namespace meshwork
