// Names that two files define, read from the sources. Compilers and linkers need not notice two types of one
// name: one of two inline constructors is then used for both ([basic.def.odr]).
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

// The types of one file. Those in an unnamed namespace, in a function or in another type are left out.
std::vector<TypeDefinition> TypesOf(const SourceFile& file);

// A line for each name that more than one file defines.
std::vector<std::string> DefinedTwice(const std::vector<SourceFile>& files);

// A name that is local to a file, in an unnamed namespace.
struct LocalName {
  std::string name;  // with its namespaces: "meshwork::::Shortened"
  // A function's parameters, "(const std::string&)"; what an alias stands for, "= std::vector<int64_t>"; "" of all
  // else.
  std::string what;
  std::string path;
  bool operator==(const LocalName&) const = default;
};

std::vector<LocalName> LocalNamesOf(const SourceFile& file);

// A line for each local name that two files of a folder have, so that they cannot be compiled as one file, as
// some builds do. Functions with other parameters, and equal aliases, do not collide.
std::vector<std::string> LocalNamesThatCollide(const std::vector<SourceFile>& files);

}  // namespace meshwork
