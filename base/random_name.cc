#include "meshwork/base/random_name.h"

#include <random>

#include "fmt/format.h"

namespace meshwork {

std::string RandomName() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace meshwork
