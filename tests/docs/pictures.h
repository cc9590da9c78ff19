// The pictures of the documentation. Mesh, Layout and PlanRelayout say which device has which block.
#pragma once

#include <map>
#include <string>

namespace meshwork::docs {

// The SVG files of docs/pictures, by name.
std::map<std::string, std::string> DrawPictures();

}  // namespace meshwork::docs
