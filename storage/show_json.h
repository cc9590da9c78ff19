// How messages about files of tensors show values of JSON, and name tensors. Only this room uses it. Pure functions,
// thread-safe.
#pragma once

#include <string>

#include "nlohmann/json_fwd.hpp"

namespace meshwork {

// A JSON value for a message: on one line, in ASCII, not too long. Bytes that are not UTF-8 become \ufffd.
std::string ShowJson(const nlohmann::json& value);

// "FILE: tensor "NAME"", the name in ASCII and not too long.
std::string PlaceOfTensor(const std::string& path, const std::string& name);

}  // namespace meshwork
