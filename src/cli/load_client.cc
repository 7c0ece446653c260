#include "cli/load_client.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace rose {

namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

Result<Address> resolve(const HttpUrl& url) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found))
    return fail(ErrorKind::io, "finding " + url.host + ": " + gai_strerror(error));
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  ::freeaddrinfo(found);
  return address;
}

// The whole number after `"name":`, or -1.
int number_after(std::string_view text, std::string_view name) {
  const size_t at = text.rfind(name);
  return at == text.npos ? -1 : std::atoi(text.data() + at + name.size());
}

// One connection and the request on it.
struct LoadStream {
  int socket = -1;
  size_t sent = 0;
  bool connecting = false, busy = false, ok = false, done = false;
  std::string in;  // not yet understood
  Time began, last_event, first_event;
  int last_tokens = 0;
  StreamRecord record;
};

class Load {
 public:
  Load(const LoadPlan& plan, const Address& address) : plan_(plan), address_(address) {
    request_ = strf("POST %s%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n",
                    plan.url.path.c_str(), plan.target.c_str(), plan.url.host.c_str());
    if (!plan.bearer.empty()) request_ += "Authorization: Bearer " + plan.bearer + "\r\n";
    request_ += strf("Content-Length: %zu\r\n\r\n", plan.body.size()) + plan.body;
    streams_.resize(size_t(std::min(plan.concurrency, plan.requests)));
    poll_ = ::epoll_create1(EPOLL_CLOEXEC);
  }
  ~Load() {
    for (LoadStream& stream : streams_) hang_up(stream);
    ::close(poll_);
  }
  LoadResult run();

 private:
  void start(LoadStream& stream);
  void connect(LoadStream& stream);
  void hang_up(LoadStream& stream);
  void on_ready(LoadStream& stream, uint32_t events);
  void send(LoadStream& stream);
  void receive(LoadStream& stream);
  void understand(LoadStream& stream);
  void event(LoadStream& stream, std::string_view text);
  void ended(LoadStream& stream);
  void failed(LoadStream& stream, const std::string& why);
  void watch(LoadStream& stream, int operation, uint32_t events) {
    epoll_event wanted{.events = events, .data = {.ptr = &stream}};
    ::epoll_ctl(poll_, operation, stream.socket, &wanted);
  }

  const LoadPlan& plan_;
  const Address& address_;
  std::string request_;
  std::vector<LoadStream> streams_;
  std::vector<LoadStream*> free_;  // have ended: their next request is due
  int poll_;
  int started_ = 0, finished_ = 0, open_ = 0;
  LoadResult result_;
};

LoadResult Load::run() {
  const Time began = Clock::now();
  size_t ramped = 0;  // streams that have had their first request
  while (finished_ < plan_.requests && seconds_since(began) < plan_.timeout_s) {
    const double passed = seconds_since(began);
    const size_t wanted =
        plan_.ramp_s > 0
            ? std::min(streams_.size(), size_t(double(streams_.size()) * passed / plan_.ramp_s) + 1)
            : streams_.size();
    while (ramped < wanted) start(streams_[ramped++]);
    for (LoadStream* stream : std::exchange(free_, {})) start(*stream);
    epoll_event events[256];
    const int count = ::epoll_wait(poll_, events, 256,
                                   !free_.empty()             ? 0
                                   : ramped < streams_.size() ? 1
                                                              : 100);
    for (int i = 0; i < count; ++i)
      on_ready(*static_cast<LoadStream*>(events[i].data.ptr), events[i].events);
  }
  result_.seconds = seconds_since(began);
  for (const LoadStream& stream : streams_)
    if (stream.busy) ++result_.failures["not ended in time"];
  return std::move(result_);
}

void Load::start(LoadStream& stream) {
  if (started_ == plan_.requests) return hang_up(stream);
  ++started_;
  stream.sent = 0;
  stream.busy = true;
  stream.ok = stream.done = false;
  stream.in.clear();
  stream.record = {};
  stream.last_tokens = 0;
  stream.began = Clock::now();
  result_.most_open = std::max(result_.most_open, ++open_);
  if (stream.socket < 0)
    connect(stream);
  else
    send(stream);
}

void Load::connect(LoadStream& stream) {
  stream.socket =
      ::socket(address_.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (stream.socket < 0) return failed(stream, std::string("socket: ") + std::strerror(errno));
  const int one = 1;
  ::setsockopt(stream.socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  stream.connecting = true;
  if (::connect(stream.socket, reinterpret_cast<const sockaddr*>(&address_.storage),
                address_.size) != 0 &&
      errno != EINPROGRESS)
    return failed(stream, std::string("connecting: ") + std::strerror(errno));
  watch(stream, EPOLL_CTL_ADD, EPOLLOUT | EPOLLIN);
}

void Load::hang_up(LoadStream& stream) {
  if (stream.socket >= 0) ::close(stream.socket);
  stream.socket = -1;
}

void Load::on_ready(LoadStream& stream, uint32_t events) {
  if (stream.socket < 0) return;
  if (stream.connecting) {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(stream.socket, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) return failed(stream, std::string("connecting: ") + std::strerror(error));
    stream.connecting = false;
    return send(stream);
  }
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) return receive(stream);
  if (events & EPOLLOUT) send(stream);
}

void Load::send(LoadStream& stream) {
  while (stream.sent < request_.size()) {
    const ssize_t sent = ::send(stream.socket, request_.data() + stream.sent,
                                request_.size() - stream.sent, MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) return watch(stream, EPOLL_CTL_MOD, EPOLLOUT | EPOLLIN);
    if (sent < 0) return failed(stream, std::string("sending: ") + std::strerror(errno));
    stream.sent += size_t(sent);
  }
  watch(stream, EPOLL_CTL_MOD, EPOLLIN);
}

void Load::receive(LoadStream& stream) {
  char piece[16384];
  const ssize_t read = ::recv(stream.socket, piece, sizeof piece, 0);
  if (read < 0 && errno == EAGAIN) return;
  if (read <= 0) {
    if (!stream.busy) return hang_up(stream);  // kept alive no longer
    return failed(stream, "the connection ended");
  }
  if (!stream.busy) return;
  stream.in.append(piece, size_t(read));
  understand(stream);
}

void Load::understand(LoadStream& stream) {
  if (!stream.ok) {
    const size_t end = stream.in.find("\r\n\r\n");
    if (end == std::string::npos) return;
    const std::string status = stream.in.substr(9, 3);
    if (status != "200") return failed(stream, "status " + status);
    stream.ok = true;
    stream.in.erase(0, end + 2);  // the chunk's size begins with a line end as all others
  }
  size_t at = 0;
  for (size_t end; (end = stream.in.find("\n\n", at)) != std::string::npos; at = end + 2)
    event(stream, std::string_view(stream.in).substr(at, end - at));
  stream.in.erase(0, at);
  if (stream.done && stream.in.find("\r\n0\r\n\r\n") != std::string::npos) ended(stream);
}

void Load::event(LoadStream& stream, std::string_view text) {
  const size_t data = text.find("data: ");
  if (data == text.npos) return;  // a comment
  text.remove_prefix(data + 6);
  if (text == "[DONE]") {
    stream.done = true;
    return;
  }
  if (text.starts_with("{\"error\"")) ++result_.failures["error event"];
  StreamRecord& record = stream.record;
  const int tokens = number_after(text, "\"completion_tokens\":");
  if (tokens > 0) record.tokens = tokens;
  const bool has_text = text.find("\"content\":\"") != text.npos ||
                        text.find("\"reasoning\":\"") != text.npos ||
                        text.find("\"text\":\"") != text.npos;
  if (!has_text || text.find("\"role\":") != text.npos) return;
  const Time now = Clock::now();
  if (record.events++ == 0) {
    record.first_s = seconds_between(stream.began, now);
    stream.first_event = now;
  } else {
    result_.gaps_s.push_back(float(seconds_between(stream.last_event, now)));
    if (tokens > 0) record.lost += std::max(0, tokens - stream.last_tokens - 1);
    if (plan_.rate > 0)
      record.worst_late_s = std::max(record.worst_late_s, seconds_between(stream.first_event, now) -
                                                              (record.events - 1) / plan_.rate);
  }
  stream.last_event = now;
  stream.last_tokens = tokens;
}

void Load::ended(LoadStream& stream) {
  stream.busy = false;
  stream.record.total_s = seconds_since(stream.began);
  result_.streams.push_back(stream.record);
  ++finished_;
  --open_;
  free_.push_back(&stream);
}

void Load::failed(LoadStream& stream, const std::string& why) {
  ++result_.failures[why];
  stream.busy = false;
  stream.connecting = false;
  hang_up(stream);
  ++finished_;
  --open_;
  free_.push_back(&stream);
}

}  // namespace

Result<LoadResult> run_load(const LoadPlan& plan) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_cur < rlim_t(plan.concurrency) + 64)
    return fail(ErrorKind::usage, strf("%d connections; this shell may have %llu files open",
                                       plan.concurrency, (unsigned long long)limit.rlim_cur));
  const Address address = TRY(resolve(plan.url));
  return Load(plan, address).run();
}

}  // namespace rose
