// In a test, a wrong pass of the compiler is an error: left out, it would be seen by nobody.
#include <cstdlib>

namespace meshwork {
namespace {

// Programs that a test starts have it, too. Who sets it otherwise is heard.
[[maybe_unused]] const int strict = setenv("MESHWORK_STRICT", "1", /*overwrite=*/0);

}  // namespace
}  // namespace meshwork
