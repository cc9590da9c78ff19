// slow_link: a network link of a given rate and delay between two network namespaces, in user space. It stands in for
// `tc qdisc … netem rate 1gbit delay 1ms` on kernels without sch_netem. See --help.
//
//   slow_link --rate=1e9 --delay-us=1000 host1 10.78.0.1/24 host2 10.78.0.2/24 -- COMMAND...
//
// Each namespace gets a TUN device, and one thread carries packets between the two. In each direction a packet
//   1. waits until the packets before it have left; if that takes longer than the queue holds, it is dropped;
//   2. takes its bits / rate to leave: departure = max(now, departure before) + bits / rate;
//   3. arrives `delay` after its departure.
//
// TCP hands its data over in packets of up to 64 KiB, as to a network card that cuts them into frames (GSO). They are
// carried whole, which saves most of the time that this program needs, but take the time of the frames they stand for,
// each with its headers. netem does the same on virtual devices.
//
// Exit code: that of COMMAND, or 128 + the signal that ended it; 127: COMMAND is not found; without COMMAND 0. 1: the
// link cannot be made; 2: the arguments are wrong.
#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr char kHelp[] =
    R"(usage: slow_link [OPTIONS] NETNS_A ADDRESS_A NETNS_B ADDRESS_B [-- COMMAND...]

Joins two network namespaces by a link of a given rate and delay, the same in both directions. NETNS is a name of
`ip netns`, or a path with a slash such as /proc/PID/ns/net; ADDRESS is IPv4 with the length of its prefix:

  slow_link --rate=1e9 --delay-us=1000 host1 10.78.0.1/24 host2 10.78.0.2/24 -- ./measure

Runs COMMAND, in the namespace of the caller, while the link is up, and ends with its exit code. Without COMMAND, prints
"ready" once the link is up and keeps it until SIGTERM or SIGINT. Needs root.

  --rate=BITS       per second, of Ethernet frames with their gaps (1e9)
  --delay-us=US     in each direction, on top of the time in which a packet's bits leave (1000)
  --queue-us=US     a packet that would wait longer than this for those before it is dropped (50000)
  --mtu=BYTES       of the devices (1500)
  --device=NAME     of the devices (slow0)
  --report          in the end, says on standard error what was carried and dropped, and the CPU time of it
  --help
)";

struct End {
  std::string netns;
  in_addr address{};
  int prefix = 0;
};

struct Options {
  double rate = 1e9, delay_us = 1000, queue_us = 50'000;
  int mtu = 1500;
  std::string device = "slow0";
  bool report = false;
  std::array<End, 2> ends;
  char** command = nullptr;  // ends with a null pointer; none: null
};

// Prints one line "slow_link: ..." and ends the program.
[[noreturn]] __attribute__((format(printf, 2, 3))) void Fail(int exit_code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fputs("slow_link: ", stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  std::exit(exit_code);
}

// ---- Arguments.

double ParseNumber(const char* name, const char* text, double least, double most) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(value >= least && value <= most))
    Fail(2, "--%s: \"%s\" is no number from %g to %g.", name, text, least, most);
  return value;
}

End ParseEnd(const char* netns, const std::string& address) {
  End end{netns};
  if (end.netns.empty()) Fail(2, "the name of a network namespace is empty.");
  const size_t slash = address.find('/');
  char* rest = nullptr;
  if (slash != std::string::npos)
    end.prefix = static_cast<int>(std::strtol(address.c_str() + slash + 1, &rest, 10));
  if (rest == nullptr || *rest != '\0' || end.prefix < 1 || end.prefix > 31 ||
      inet_pton(AF_INET, address.substr(0, slash).c_str(), &end.address) != 1)
    Fail(2, "\"%s\" is no IPv4 address with the length of its prefix, such as 10.78.0.1/24.",
         address.c_str());
  return end;
}

Options ParseOptions(int argc, char** argv) {
  static constexpr option kLong[] = {
      {"rate", required_argument, nullptr, 'r'},     {"delay-us", required_argument, nullptr, 'd'},
      {"queue-us", required_argument, nullptr, 'q'}, {"mtu", required_argument, nullptr, 'm'},
      {"device", required_argument, nullptr, 'n'},   {"report", no_argument, nullptr, 'p'},
      {"help", no_argument, nullptr, 'h'},           {nullptr, 0, nullptr, 0}};
  Options o;
  opterr = 0;
  for (int flag = 0; (flag = getopt_long(argc, argv, "+:", kLong, nullptr)) != -1;) {
    switch (flag) {
      case 'r': o.rate = ParseNumber("rate", optarg, 1e3, 1e12); break;
      case 'd': o.delay_us = ParseNumber("delay-us", optarg, 0, 1e7); break;
      case 'q': o.queue_us = ParseNumber("queue-us", optarg, 0, 1e7); break;
      case 'm': o.mtu = static_cast<int>(ParseNumber("mtu", optarg, 576, 65'000)); break;
      case 'n': o.device = optarg; break;
      case 'p': o.report = true; break;
      case 'h': std::fputs(kHelp, stdout); std::exit(0);
      case ':': Fail(2, "%s needs a value; see --help.", argv[optind - 1]);
      default: Fail(2, "%s is no option; see --help.", argv[optind - 1]);
    }
  }
  if (o.device.empty() || o.device.size() >= IFNAMSIZ)
    Fail(2, "--device: \"%s\" has not 1 to %d characters.", o.device.c_str(), IFNAMSIZ - 1);
  if (argc - optind < 4)
    Fail(2, "give two namespaces with an address each: NETNS_A ADDRESS_A NETNS_B ADDRESS_B; see --help.");
  for (int i = 0; i < 2; ++i) o.ends[i] = ParseEnd(argv[optind + 2 * i], argv[optind + 2 * i + 1]);
  char** rest = argv + optind + 4;
  if (*rest == nullptr) return o;
  if (std::strcmp(*rest, "--") != 0) Fail(2, "\"%s\": a command follows after \"--\"; see --help.", *rest);
  if (rest[1] == nullptr) Fail(2, "no command follows after \"--\".");
  o.command = rest + 1;
  return o;
}

// ---- Devices.

// `what`: a word for the error message that describes `call`, an ioctl on a device.
void Set(int fd, unsigned long call, ifreq request, const End& end, const char* what) {
  if (ioctl(fd, call, &request) < 0)
    Fail(1, "namespace %s: %s of device %s: %s.", end.netns.c_str(), what, request.ifr_name,
         std::strerror(errno));
}

sockaddr SocketAddress(in_addr address) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr = address;
  sockaddr result;
  std::memcpy(&result, &in, sizeof result);
  return result;
}

// A new TUN device in the namespace of this thread, up. It lives as long as the returned descriptor, which does not
// block. Each packet read or written has a PacketHeader in front.
int OpenDevice(const Options& o, const End& end) {
  const int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tun < 0) Fail(1, "/dev/net/tun: %s.", std::strerror(errno));
  ifreq named{};
  o.device.copy(named.ifr_name, IFNAMSIZ - 1);
  ifreq request = named;
  request.ifr_flags = static_cast<short>(IFF_TUN | IFF_NO_PI | IFF_VNET_HDR | IFF_TUN_EXCL);
  Set(tun, TUNSETIFF, request, end, "making");
  if (ioctl(tun, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) < 0)
    Fail(1, "namespace %s: TUNSETOFFLOAD: %s.", end.netns.c_str(), std::strerror(errno));

  const int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) Fail(1, "namespace %s: socket: %s.", end.netns.c_str(), std::strerror(errno));
  request = named;
  request.ifr_mtu = o.mtu;
  Set(socket_fd, SIOCSIFMTU, request, end, "MTU");
  request = named;
  request.ifr_addr = SocketAddress(end.address);
  Set(socket_fd, SIOCSIFADDR, request, end, "address");
  request.ifr_netmask = SocketAddress({htonl(~uint32_t{0} << (32 - end.prefix))});
  Set(socket_fd, SIOCSIFNETMASK, request, end, "netmask");
  request = named;
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  Set(socket_fd, SIOCSIFFLAGS, request, end, "starting");
  close(socket_fd);
  return tun;
}

int OpenDeviceIn(const Options& o, const End& end) {
  const std::string path = end.netns.find('/') != std::string::npos ? end.netns : "/run/netns/" + end.netns;
  const int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  const int netns = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (netns < 0) Fail(1, "namespace %s: %s: %s.", end.netns.c_str(), path.c_str(), std::strerror(errno));
  if (setns(netns, CLONE_NEWNET) < 0)
    Fail(1, "namespace %s: cannot enter it: %s.", end.netns.c_str(), std::strerror(errno));
  const int tun = OpenDevice(o, end);
  if (own < 0 || setns(own, CLONE_NEWNET) < 0)
    Fail(1, "cannot return to the own network namespace: %s.", std::strerror(errno));
  close(netns);
  close(own);
  return tun;
}

// ---- The wire. Times are nanoseconds of CLOCK_MONOTONIC.

// Precedes each packet of the devices. That of <linux/virtio_net.h>, which is not C++.
struct PacketHeader {
  uint8_t flags, gso_type;
  uint16_t header_bytes, gso_size, csum_start, csum_offset;
};
constexpr size_t kMostBytes = sizeof(PacketHeader) + 65'536;
constexpr int64_t kFrameBytes = 14 + 4 + 8 + 12;  // Ethernet's header, checksum, preamble and gap
constexpr int kMostTaken = 64;
constexpr int64_t kNever = INT64_MAX;

int64_t Now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
}

// Bytes that `packet`, with its PacketHeader, has on an Ethernet, as one frame or as those it is cut into.
int64_t WireBytes(const char* packet, size_t size) {
  // The high half of this byte of a TCP header is its length in words of 4 bytes.
  constexpr size_t kTcpDataOffset = 12;
  PacketHeader header;
  std::memcpy(&header, packet, sizeof header);
  const auto ip_bytes = static_cast<int64_t>(size - sizeof header);
  const size_t data_offset = sizeof header + header.csum_start + kTcpDataOffset;
  if (header.gso_size == 0 || data_offset >= size) return ip_bytes + kFrameBytes;
  const int64_t header_bytes = header.csum_start + 4 * (static_cast<unsigned char>(packet[data_offset]) >> 4);
  const int64_t payload = std::max<int64_t>(ip_bytes - header_bytes, 1);
  const int64_t frames = (payload + header.gso_size - 1) / header.gso_size;
  return payload + frames * (header_bytes + kFrameBytes);
}

// One direction. Its queue contains first the packets on their way, then those that wait.
class Direction {
 public:
  Direction(const Options& o, int from, int to)
      : from_(from),
        to_(to),
        ns_per_byte_(8e9 / o.rate),
        delay_ns_(std::llround(1e3 * o.delay_us)),
        queue_ns_(std::llround(1e3 * o.queue_us)) {}

  // Takes the packets that the device has, but limits their number so that others are delivered in time.
  void Take() {
    for (int i = 0; i < kMostTaken; ++i) {
      if (unused_.empty()) unused_.push_back(std::make_unique_for_overwrite<Buffer>());
      Buffer& buffer = *unused_.back();
      const ssize_t size = read(from_, buffer.data(), buffer.size());
      if (size < 0) {
        // EIO: somebody has set the device down.
        if (errno == EAGAIN || errno == EINTR || errno == EIO) return;
        Fail(1, "reading packets: %s.", std::strerror(errno));
      }
      if (static_cast<size_t>(size) > sizeof(PacketHeader)) Enqueue(static_cast<size_t>(size));
    }
  }

  // Hands over what has arrived. Returns the time of the next arrival, or kNever.
  int64_t Deliver() {
    while (!packets_.empty()) {
      Packet& packet = packets_.front();
      const int64_t late = Now() - packet.arrival;
      if (late < 0) return packet.arrival;
      late_sum_ns_ += late;
      late_most_ns_ = std::max(late_most_ns_, late);
      ++delivered_;
      // A device that is down loses it.
      if (write(to_, packet.buffer->data(), packet.size) < 0) ++refused_;
      unused_.push_back(std::move(packet.buffer));
      packets_.pop_front();
    }
    return kNever;
  }

  void Report(const char* name) const {
    std::fprintf(
        stderr,
        "slow_link: %s: %" PRId64 " packets, %.1f MB on the wire, %" PRId64 " dropped, %" PRId64
        " refused; late by %.0f us on average, %.0f us at most\n",
        name, delivered_, 1e-6 * static_cast<double>(wire_bytes_), dropped_, refused_,
        1e-3 * static_cast<double>(late_sum_ns_) / static_cast<double>(std::max<int64_t>(delivered_, 1)),
        1e-3 * static_cast<double>(late_most_ns_));
  }

 private:
  using Buffer = std::array<char, kMostBytes>;
  struct Packet {
    int64_t arrival;
    size_t size;
    std::unique_ptr<Buffer> buffer;
  };

  // The packet is in the last unused buffer.
  void Enqueue(size_t size) {
    const int64_t now = Now(), start = std::max(now, departure_);
    if (start - now > queue_ns_) {
      ++dropped_;
      return;
    }
    const int64_t bytes = WireBytes(unused_.back()->data(), size);
    departure_ = start + std::llround(static_cast<double>(bytes) * ns_per_byte_);
    packets_.push_back({departure_ + delay_ns_, size, std::move(unused_.back())});
    unused_.pop_back();
    wire_bytes_ += bytes;
  }

  const int from_, to_;
  const double ns_per_byte_;
  const int64_t delay_ns_, queue_ns_;
  int64_t departure_ = 0;  // when the last bit of the last packet leaves
  std::deque<Packet> packets_;
  std::vector<std::unique_ptr<Buffer>> unused_;
  int64_t wire_bytes_ = 0, dropped_ = 0, delivered_ = 0, refused_ = 0, late_sum_ns_ = 0, late_most_ns_ = 0;
};

// ---- The command.

pid_t Start(char** command) {
  const pid_t child = fork();
  if (child < 0) Fail(1, "fork: %s.", std::strerror(errno));
  if (child > 0) return child;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvp(command[0], command);
  std::fprintf(stderr, "slow_link: %s: %s.\n", command[0], std::strerror(errno));
  _exit(127);
}

// Handles one signal. Returns the exit code if the program is to end, else -1. `child`: the command, or 0.
int Handle(int signals, pid_t child) {
  signalfd_siginfo info;
  if (read(signals, &info, sizeof info) != sizeof info) return -1;
  if (info.ssi_signo != SIGCHLD) {
    if (child == 0) return 0;
    kill(child, static_cast<int>(info.ssi_signo));  // its end will be ours
    return -1;
  }
  int status = 0;
  if (child == 0 || waitpid(child, &status, WNOHANG) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Makes this process wake up on time when all cores are busy. The command has already started, and is not affected.
void BePunctual() {
  prctl(PR_SET_TIMERSLACK, 1);
  const sched_param param{.sched_priority = 1};
  if (sched_setscheduler(0, SCHED_RR, &param) < 0)
    std::fprintf(stderr, "slow_link: no real-time priority (%s): packets may be late.\n",
                 std::strerror(errno));
}

void ReportCpu() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  std::fprintf(stderr, "slow_link: CPU %.3f s user, %.3f s system\n", seconds(usage.ru_utime),
               seconds(usage.ru_stime));
}

int Run(const Options& o) {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&watched, signal);
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  const int signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) Fail(1, "signalfd: %s.", std::strerror(errno));

  const int a = OpenDeviceIn(o, o.ends[0]), b = OpenDeviceIn(o, o.ends[1]);
  std::array<Direction, 2> directions = {Direction(o, a, b), Direction(o, b, a)};
  const pid_t child = o.command != nullptr ? Start(o.command) : 0;
  BePunctual();
  if (child == 0) {
    std::puts("ready");
    std::fflush(stdout);
  }

  int exit_code = -1;
  while (exit_code < 0) {
    const int64_t next = std::min(directions[0].Deliver(), directions[1].Deliver());
    const int64_t wait = std::max<int64_t>(next == kNever ? 0 : next - Now(), 0);
    const timespec timeout{.tv_sec = wait / 1'000'000'000, .tv_nsec = wait % 1'000'000'000};
    std::array<pollfd, 3> polled = {{{a, POLLIN, 0}, {b, POLLIN, 0}, {signals, POLLIN, 0}}};
    if (ppoll(polled.data(), polled.size(), next == kNever ? nullptr : &timeout, nullptr) < 0) continue;
    for (int i = 0; i < 2; ++i)
      if (polled[i].revents != 0) directions[i].Take();
    if (polled[2].revents != 0) exit_code = Handle(signals, child);
  }
  if (o.report) {
    directions[0].Report((o.ends[0].netns + " to " + o.ends[1].netns).c_str());
    directions[1].Report((o.ends[1].netns + " to " + o.ends[0].netns).c_str());
    ReportCpu();
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) { return Run(ParseOptions(argc, argv)); }
