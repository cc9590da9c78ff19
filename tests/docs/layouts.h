// Checks the lines of `layout` blocks against the library.
#pragma once

#include <string>
#include <string_view>

namespace meshwork::docs {

// Lines of four forms; empty ones part them.
//
//   {x} of [10] on [x=4]              0 1 2 | 3 4 5 | 6 7 8 | 9 . .    the buffers of all devices; `.` is
//   padding {x,_} -> {_,x} of [8,8] on [x=4]  all_to_all                       the steps of PlanRelayout; "-"
//   for none [batch=4, model=2*4]                                               a mesh
//   {"axes": …}                                                        the JSON form of the line above
//
// A JSON form of a layout, or of a pin, is that on the mesh above it. Returns what is wrong, or "".
std::string CheckLayouts(std::string_view text);

}  // namespace meshwork::docs
