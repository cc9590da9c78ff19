#include "meshwork/base/exceptions.h"

#include <exception>
#include <new>

#include "fmt/format.h"

namespace meshwork {

absl::Status CaughtStatus(std::string_view where, std::string_view no_memory) {
  const auto failed = [&](std::string_view what) {
    return absl::InternalError(fmt::format("{}: a library failed: {}.", where, what));
  };
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(fmt::format("{}: {}.", where, no_memory));
  } catch (const std::exception& error) {
    return failed(error.what());
  } catch (...) {
    return failed("it threw what is no std::exception");
  }
}

}  // namespace meshwork
