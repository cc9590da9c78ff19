// Types that two files define under one name, read off sources. Compilers and linkers need not notice them: of two
// inline constructors of that name one is taken for both ([basic.def.odr]).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "house/includes.h"

namespace meshwork {

// A struct, class, union or enum that a file defines in a named namespace.
struct TypeDefinition {
  std::string name;  // with its namespaces: "meshwork::Graph"
  std::string path;
  bool operator==(const TypeDefinition&) const = default;
};

// Those of one file. What stands in a namespace without a name, in a function or in another type is left out.
std::vector<TypeDefinition> TypesOf(const SourceFile& file);

// A line for each name that more than one file defines.
std::vector<std::string> DefinedTwice(const std::vector<SourceFile>& files);

}  // namespace meshwork
