// The tree of an MLIR module in generic form, as JAX prints it: ops with operands, attributes, regions and types, and nothing of
// what they mean.
//
//   %3 = "stablehlo.add"(%1, %2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
//
// Source: MLIR language reference, mlir.llvm.org/docs/LangRef.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/type.h"

namespace meshwork::mlir {

// tensor<4x6xf32>.
struct TensorType {
  std::string element;  // "f32", "ui8"; what is no tensor: the text of the type
  Shape shape = {};
  bool is_tensor = true;
  bool is_dynamic = false;  // a size is ?, in `shape` -1

  int rank() const { return static_cast<int>(shape.size()); }
  std::string ToString() const;
  bool operator==(const TensorType&) const = default;
};

// The value of an attribute.
struct Attribute {
  enum class Kind { kUnit, kBool, kInt, kReal, kString, kSymbol, kList, kDict, kDense, kText };
  Kind kind = Kind::kUnit;
  size_t at = 0;      // its place in the text
  int64_t whole = 0;  // kBool, kInt
  double real = 0;    // kReal
  // kString, kSymbol: what it is. kDense: its elements, as they are written. kText: of #stablehlo<precision DEFAULT> all but the #,
  // of a type the type; so are all others that are not read further.
  std::string text = {};
  TensorType type = {};               // kDense
  std::vector<Attribute> items = {};  // kList
  std::vector<std::pair<std::string, Attribute>> members =
      {};                                              // kDict; of #stablehlo.gather<…> its parameters
  const Attribute* Find(std::string_view name) const;  // a member; null: there is none
};

// "GE" of #stablehlo<comparison_direction GE>; "": the attribute, which may be null, has no such word.
std::string_view WordOf(const Attribute* attribute);

struct ValueRef {
  std::string name;  // "12" of %12#3
  int result = 0;    // 3
  size_t at = 0;
};

struct Region;

struct Op {
  std::string name;  // "stablehlo.add"
  size_t at = 0;
  std::string result;  // "12" of %12:4
  int num_results = 0;
  std::vector<ValueRef> operands = {};
  Attribute attributes = {};  // kDict: its properties and its other attributes
  std::vector<Region> regions;
  std::vector<TensorType> operand_types = {}, result_types = {};
  std::string location = {};  // what stands in loc(…)
};

struct RegionArgument {
  std::string name;  // "arg0"
  TensorType type;
  std::string location = {};
};

// A region of one block, or of none.
struct Region {
  size_t at = 0;
  std::vector<RegionArgument> arguments = {};
  std::vector<Op> ops = {};
};

struct Module {
  Op op;                                              // builtin.module
  std::map<std::string, std::string> locations = {};  // "loc3": what stands in #loc3 = loc(…)
};

// Errors: the place and what is expected there; a module that is not in generic form, with what prints one; regions of several
// blocks; more than 64 regions, lists or dicts in each other.
absl::StatusOr<Module> ParseModule(std::string_view text, std::string_view file);

// Of a location its line in a file, as loc("model.py":12:3) has it, behind aliases, and within the names and calls around it.
struct FileLine {
  std::string file;  // without its folders
  int line = 0;      // 0: there is none
};
FileLine LineOf(const Module& module, std::string_view location);
// Its first name: "params['w']" of loc("params['w']"); "": none.
std::string NameOf(const Module& module, std::string_view location);

// The elements of a dense<…> of a tensor: whole numbers, bools, or the bits of reals in their own size; one if all are equal. Errors:
// a form that is not read, another number of elements than the type's, numbers that the element type lacks.
struct DenseElements {
  std::vector<int64_t> bits;
  bool is_splat = false;
};
absl::StatusOr<DenseElements> ReadDense(const Attribute& attribute, std::string_view text,
                                        std::string_view file);

}  // namespace meshwork::mlir
