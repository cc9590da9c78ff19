// The text of a hostile program while it grows. A statement or an argument that the parser refuses is removed
// again.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/ir/graph.h"
#include "support/hostile_chance.h"
#include "support/hostile_pieces.h"
#include "support/hostile_program.h"

namespace meshwork {

// A program, or a body, while it grows.
struct HostileBody {
  struct Value {
    std::string name;
    Type type;
  };
  std::vector<std::string> arguments, statements, updates, outputs;
  std::vector<Value> values;

  std::string ArgumentsText() const;   // "(%a0: f32[4], var %a1: i32[])"
  std::string StatementsText() const;  // "{ … }"
};

class HostileBuilder {
 public:
  // Keeps references to `chance`, `pieces` and `trying`, which is told of every text before it is parsed.
  HostileBuilder(HostileChance& chance, HostilePieces& pieces, std::string mesh, const Trying& trying)
      : chance_(chance), pieces_(pieces), mesh_(std::move(mesh)), trying_(trying) {}

  std::string Text(const HostileBody& body) const;
  // Names that no value has.
  std::string NewArgument();
  std::string NewValue();
  // Appends an argument and returns its name, or "" if the parser refuses it. `may_lie`: it may have a
  // layout, and may be gathered.
  std::string AddArgument(HostileBody& body, const Type& type, bool is_variable, bool may_lie = true);
  // Appends "%v0, %v1 = text", and the values that it makes. If the parser refuses it, sets `body` back to
  // `before` and returns false. `may_be_pinned`: its results may have layouts.
  bool Append(HostileBody& body, const HostileBody& before, const std::string& text, size_t results,
              bool may_be_pinned);
  // Nullopt if the parser refuses the program.
  std::optional<Graph> Parse(const HostileBody& body) const;

 private:
  HostileChance& chance_;
  HostilePieces& pieces_;
  std::string mesh_;
  const Trying& trying_;
  int count_ = 0;
};

}  // namespace meshwork
