// How long a thread has waited for its input since its last step, so that a profile can name the steps that starved.
#pragma once

namespace meshwork {

// Adds to what TakeInputWait of this thread will give. An iterator over a Pipeline calls it, and PrefetchToDevice.
void AddInputWait(double seconds);

// The seconds that this thread has waited for its input since it last asked; 0 if it has not. A new session asks, so that
// its first step has no wait from before.
double TakeInputWait();

}  // namespace meshwork
