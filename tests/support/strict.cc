// In a test, a wrong pass of the compiler is an error: if it were left out, nobody would see it.
#include <cstdlib>

namespace meshwork {
namespace {

// Programs that a test starts have this setting, too. A value that the environment has already is kept.
[[maybe_unused]] const int strict = setenv("MESHWORK_STRICT", "1", /*overwrite=*/0);

}  // namespace
}  // namespace meshwork
