#include "meshwork/base/exceptions.h"

#include <exception>
#include <new>
#include <string_view>

#include "fmt/format.h"
#include "meshwork/base/check_border.h"

namespace meshwork {

absl::Status CaughtStatus(std::string_view where, std::string_view no_memory) {
  const auto failed = [&](std::string_view what) {
    return absl::InternalError(fmt::format("{}: a library failed: {}.", where, what));
  };
  try {
    throw;
  } catch (const std::bad_alloc& error) {
    const std::string_view what = error.what();
    if (what.starts_with("std::"))
      return absl::ResourceExhaustedError(fmt::format("{}: {}.", where, no_memory));
    return absl::ResourceExhaustedError(fmt::format("{}: {}", where, what));
  } catch (const CheckFailure& failure) {
    return BugStatus(where, failure);
  } catch (const std::exception& error) {
    return failed(error.what());
  } catch (...) {
    return failed("it threw what is no std::exception");
  }
}

}  // namespace meshwork
