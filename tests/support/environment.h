// An environment of its own for a test.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "meshwork/mesh/cluster.h"

namespace meshwork {

inline Environment EnvironmentOf(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional(it->second);
  };
}

}  // namespace meshwork
