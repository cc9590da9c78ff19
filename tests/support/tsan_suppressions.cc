// Races that the thread sanitizer reports wrongly.

extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)

// oneDNN is not compiled with the sanitizer, which sees only its calls of the C library. In oneDNN's cache of primitives
// one thread allocates and another one compares; the sanitizer sees both, and not the futures that order them. Nor is Open
// MPI, which also takes locks of its own in two orders, and leaves some to another thread. Our threads that call it are
// seen.
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libdnnl.so\n"
         "called_from_lib:libmpi.so\n"
         "called_from_lib:libopen-rte.so\n"
         "called_from_lib:libopen-pal.so\n"
         "deadlock:mca_btl_tcp\n"
         "mutex:libmpi.so\n"
         "mutex:libopen-pal.so\n"
         "mutex:mca_btl_tcp\n";
}
