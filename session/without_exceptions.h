// What keeps exceptions within a call of a session. Internal: session and session/saved.
#pragma once

#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "meshwork/base/check_border.h"
#include "meshwork/base/exceptions.h"
#include "meshwork/runtime/exec/transport.h"

namespace meshwork {

// The result of f, or a status if it throws: there is not enough memory, a user's op throws while its kernel
// is made, or a CHECK fails. Other domains do not wait for this one then.
template <typename F>
std::invoke_result_t<F> WithoutExceptions(Transport* transport, F&& f) {
  const CheckBorder border;
  try {
    return f();
  } catch (...) {
    absl::Status status = CaughtStatus("Session", "there is not enough memory");
    if (transport != nullptr) transport->Abort(status);
    return status;
  }
}

}  // namespace meshwork
