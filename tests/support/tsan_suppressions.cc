// What the thread sanitizer does not see rightly.

// oneDNN is not compiled with it: of its cache of primitives, which it guards by a lock and futures, only calls of
// the C library are seen, such as one thread's allocation and another one's comparison of what lies there.
extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_suppressions() { return "called_from_lib:libdnnl.so\n"; }
