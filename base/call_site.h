// CallSite: the file and line of a call, taken by a default argument.
//
//   Value Relu(const Value& x, CallSite site = CallSite::Current());   // site: where Relu is called
//
// Does what std::source_location does, which clang 14 lacks.
#pragma once

namespace meshwork {

struct CallSite {
  // No default: an argument {} means an empty layout or shape, never a place.
  constexpr CallSite(const char* file, int line) : file(file), line(line) {}

  const char* file;
  int line;

  static constexpr CallSite Current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace meshwork
