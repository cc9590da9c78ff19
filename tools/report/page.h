// The files of report/page, which the build puts into the library (CMakeLists.txt).
#pragma once

#include <string_view>

namespace meshwork {

extern const std::string_view
    kReportPage;  // page.html; {{title}}, {{style}}, {{data}}, {{script}} are to be filled in
extern const std::string_view kReportStyle;   // page.css
extern const std::string_view kReportScript;  // the *.js, in the order of their names

}  // namespace meshwork
