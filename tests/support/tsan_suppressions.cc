// Races that the thread sanitizer reports wrongly.

extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)

// oneDNN is not compiled with the sanitizer, which sees only its calls of the C library. In oneDNN's cache of
// primitives one thread allocates and another one compares; the sanitizer sees both accesses, but not the
// futures that order them. Open MPI is not compiled with it either; it also takes its locks in two orders, and
// leaves some locked for another thread. Races of our own threads that call these libraries are still reported.
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
