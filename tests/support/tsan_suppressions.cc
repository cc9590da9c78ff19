// Races that the thread sanitizer reports wrongly.

// oneDNN is not compiled with the sanitizer, which sees only its calls of the C library. In oneDNN's cache of primitives
// one thread allocates and another one compares; the sanitizer sees both, and not the futures that order them.
extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_suppressions() { return "called_from_lib:libdnnl.so\n"; }
