#include "meshwork/runtime/exec/input_wait.h"

#include <utility>

namespace meshwork {
namespace {

thread_local double waited = 0;

}  // namespace

void AddInputWait(double seconds) { waited += seconds; }

double TakeInputWait() { return std::exchange(waited, 0); }

}  // namespace meshwork
