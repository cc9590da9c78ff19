// The time that a thread has waited for its input since its last step, so that a profile can name the steps that
// starved.
#pragma once

namespace meshwork {

// Adds to the result of the next TakeInputWait of this thread. Iterators over a Pipeline and PrefetchToDevice call it.
void AddInputWait(double seconds);

// The seconds that this thread has waited for its input since its last call of TakeInputWait. A new session calls it,
// so that its first step does not count earlier waits.
double TakeInputWait();

}  // namespace meshwork
