// The pieces of a hostile program's statements: random types, layouts and attributes, as a text writes them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/ir/attrs.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/type.h"
#include "support/hostile_chance.h"

namespace meshwork {

class HostilePieces {
 public:
  // `axes`: of the program's mesh. Keeps a reference to `chance`.
  HostilePieces(HostileChance& chance, std::vector<std::string> axes)
      : chance_(chance), axes_(std::move(axes)) {}

  const std::vector<std::string>& axes() const { return axes_; }
  Type RandomType();
  // A layout, most often of `rank` dims.
  std::string RandomLayout(int rank);
  // `sample`: a value that a sample of the row has, or null. `rank`: of the node's first operand.
  std::string AttrText(const AttrSpec& spec, const AttrValue* sample, int rank);

 private:
  std::vector<int64_t> Changed(std::vector<int64_t> list);

  HostileChance& chance_;
  std::vector<std::string> axes_;
};

}  // namespace meshwork
