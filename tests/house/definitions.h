// Names that two files define, read off sources. For types, compilers and linkers need not notice them: of two
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

// A name that a file has for itself, in a namespace without a name.
struct LocalName {
  std::string name;  // with its namespaces: "meshwork::::Shortened"
  // A function's parameters, "(const std::string&)"; what an alias stands for, "= std::vector<int64_t>"; "" of all else.
  std::string what;
  std::string path;
  bool operator==(const LocalName&) const = default;
};

std::vector<LocalName> LocalNamesOf(const SourceFile& file);

// A line for each local name that cannot stand in one file, since two files of a folder have it. They may be compiled as
// one; which are, differs with the build. Functions for other parameters, and aliases of the same, can.
std::vector<std::string> LocalNamesThatCollide(const std::vector<SourceFile>& files);

}  // namespace meshwork
