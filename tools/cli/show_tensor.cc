#include "tools/cli/show_tensor.h"

#include <algorithm>

#include "fmt/format.h"

namespace meshwork::tools {
namespace {

constexpr int64_t kShown = 8;

}  // namespace

std::string Show(const Tensor& tensor) {
  std::string out = tensor.type().ToString();
  const int64_t shown = std::min(kShown, tensor.num_elements());
  DispatchAny(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < shown; ++i) {
      const T x = tensor.values<T>()[static_cast<size_t>(i)];
      out += i == 0 ? " " : ", ";
      if constexpr (kIsNarrowReal<T>) out += fmt::format("{}", static_cast<float>(x));
      else out += fmt::format("{}", x);
    }
  });
  return out + (shown < tensor.num_elements() ? ", …" : "");
}

}  // namespace meshwork::tools
