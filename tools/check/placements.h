// Placements of one op to be tried: layouts of its operands and results.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "meshwork/ir/rule.h"
#include "meshwork/ir/sample.h"
#include "meshwork/layout/layout.h"
#include "meshwork/mesh/mesh.h"

namespace meshwork {

// A layout per operand and per result.
struct OpPlacement {
  std::vector<Layout> operands, results;

  std::string ToString() const;  // "{x,_}, {_} -> {x,_}"
};

// A reduction that some operands owe over one axis.
struct Debt {
  int axis;
  ReduceOp op;
  std::vector<bool> operands;
};

// The axes that each letter of a rule is cut by.
using LetterAxes = std::vector<AxisList>;

// Every way to put each axis of the mesh on a letter or on no letter; two axes on one letter in both orders.
std::vector<LetterAxes> AllLetterAxes(const Mesh& mesh, size_t letters);
OpPlacement PlacementOf(const Rule& rule, const LetterAxes& axes, const Mesh& mesh);

// Letters are split into two factors if possible; each axis cuts one factor, or none.
OpPlacement StridedPlacement(const Sample& sample, const Rule& rule, const Mesh& mesh,
                             std::mt19937_64& engine);
// Each axis on any dim or on no dim, whatever the rule says.
OpPlacement RandomPlacement(const Sample& sample, const Mesh& mesh, std::mt19937_64& engine);

// A reduction over an axis that cuts no letter, owed by some operands: by a pass of the rule, or any. Nothing
// if no axis is free or no operand may owe.
std::optional<Debt> RandomDebt(const Sample& sample, const Rule& rule, const LetterAxes& axes,
                               const Mesh& mesh, std::mt19937_64& engine);

}  // namespace meshwork
