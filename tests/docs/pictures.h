// The pictures of the documentation. Who holds what in them is what Mesh, Layout and PlanRelayout say.
#pragma once

#include <map>
#include <string>

namespace meshwork::docs {

// The SVG files of docs/pictures, by name.
std::map<std::string, std::string> DrawPictures();

}  // namespace meshwork::docs
