// Bytes on a connection, in pieces: every answer is whole and well formed, all connections end, and how
// the bytes were cut changes nothing.
#include <sys/socket.h>

#include <algorithm>

#include "api/http_connection.h"
#include "base/check.h"
#include "base/log.h"
#include "fuzz/targets.h"

namespace rose::fuzz {

namespace {

// The requests that reached the handler, as far as their answers depend on it.
struct Handled {
  bool head_only;
};

HttpShared& shared() {
  static HttpShared shared(1);
  return shared;
}

// One connection over a pair of sockets, served in this thread.
class Session {
 public:
  Session() : loop_(shared()) {
    int pair[2];
    ROSE_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0, "no sockets");
    client_ = pair[0];
    tcp::socket socket(loop_.context);
    error_code error;
    socket.assign(tcp::v4(), pair[1], error);
    ROSE_CHECK(!error, "%s", error.message().c_str());

    shared().options.max_body_bytes = 2000;
    shared().options.max_header_bytes = 1000;
    shared().handler = [this](Exchange exchange) { handle(std::move(exchange)); };
    shared().connections = 1;
    const auto connection = std::make_shared<Connection>(loop_, std::move(socket), nullptr);
    loop_.connections.insert(connection);
    connection->start();
  }
  ~Session() {
    ::close(client_);
    turn();
    waiting_.clear();
    turn();
    ROSE_CHECK(shared().connections == 0 && loop_.connections.empty(), "a connection is left");
  }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(client_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;  // the server has closed
      bytes.remove_prefix(size_t(sent));
      turn();
    }
  }
  // Lets those answers come that wait for something.
  void answer_late() {
    while (!waiting_.empty()) {
      Exchange exchange = std::move(waiting_.back());
      waiting_.pop_back();
      exchange.post([exchange]() mutable { exchange.respond({.body = "\"late\""}); });
      turn();
    }
  }

  const std::string& received() const { return received_; }
  const std::vector<Handled>& handled() const { return handled_; }

 private:
  void turn() {
    for (int quiet = 0; quiet < 2;) {
      loop_.context.restart();
      quiet = loop_.context.poll() > 0 ? 0 : quiet + 1;
      char buffer[16384];
      for (ssize_t bytes; (bytes = ::recv(client_, buffer, sizeof buffer, 0)) > 0; quiet = 0)
        received_.append(buffer, size_t(bytes));
    }
  }

  void handle(Exchange exchange) {
    const HttpRequest& request = exchange.request();
    handled_.push_back({request.method == "HEAD"});
    if (request.path == "/stream") {
      exchange.begin({.content_type = "text/event-stream"});
      for (int i = 0; i < 3; ++i) exchange.write(strf("data: %d\n\n", i));
      return exchange.end();
    }
    if (request.path == "/none") return exchange.respond({.status = 204, .content_type = ""});
    if (request.path == "/late") return waiting_.push_back(std::move(exchange));
    // All that was understood, so that another cut that is understood differently shows.
    std::string body = request.method + ' ' + request.path + ' ' + request.query + '\n';
    for (const auto& [name, value] : request.headers) body += name + ": " + value + '\n';
    body += request.body;
    exchange.respond({.content_type = "text/plain", .body = std::move(body)});
  }

  Loop loop_;
  int client_ = -1;
  std::string received_;
  std::vector<Handled> handled_;
  std::vector<Exchange> waiting_;
};

std::string_view value_of(std::string_view head, std::string_view name) {
  const size_t at = head.find("\r\n" + std::string(name) + ": ");
  if (at == head.npos) return {};
  const size_t begin = at + 2 + name.size() + 2;
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

// Takes a chunked body from the front.
void take_chunks(std::string_view& bytes) {
  for (size_t size = 1; size > 0;) {
    const size_t line = bytes.find("\r\n");
    ROSE_CHECK(line != bytes.npos, "a chunk has no size");
    size = std::strtoul(std::string(bytes.substr(0, line)).c_str(), nullptr, 16);
    ROSE_CHECK(bytes.size() >= line + 2 + size + 2, "a chunk is cut");
    bytes.remove_prefix(line + 2 + size);
    ROSE_CHECK(bytes.starts_with("\r\n"), "a chunk does not end");
    bytes.remove_prefix(2);
  }
}

// Whole answers, one after the other. Returns those to requests, without the ids that are drawn for them:
// what is no request is refused as soon as that is certain, which a cut may put off.
std::string check_answers(std::string_view bytes, const std::vector<Handled>& handled) {
  std::string comparable;
  for (size_t answers = 0; !bytes.empty();) {
    const size_t end = bytes.find("\r\n\r\n");
    ROSE_CHECK(end != bytes.npos, "an answer's head does not end");
    const std::string head(bytes.substr(0, end + 2));
    bytes.remove_prefix(end + 4);
    ROSE_CHECK(head.starts_with("HTTP/1.1 ") && head.size() > 13, "an answer begins with %.20s",
               head.c_str());
    const int status = std::atoi(head.c_str() + 9);
    ROSE_CHECK(status >= 100 && status < 600, "the status is %d", status);
    if (status == 100) continue;
    const std::string_view before = bytes;
    const bool understood = answers < handled.size();
    const bool head_only = understood && handled[answers].head_only;
    ++answers;
    ROSE_CHECK(understood || (status >= 400 && value_of(head, "Connection") == "close"),
               "nothing was asked, and the answer is %d", status);
    const std::string_view length = value_of(head, "Content-Length");
    if (head_only || status == 204) {
    } else if (!length.empty()) {
      const size_t size = std::strtoul(std::string(length).c_str(), nullptr, 10);
      ROSE_CHECK(bytes.size() >= size, "a body of %zu bytes has %zu", size, bytes.size());
      bytes.remove_prefix(size);
    } else if (value_of(head, "Transfer-Encoding") == "chunked") {
      take_chunks(bytes);
    } else {
      ROSE_CHECK(value_of(head, "Connection") == "close", "nothing says where the body ends");
      bytes = {};
    }
    if (!understood) continue;
    comparable += head.substr(0, head.find("\r\nX-Request-Id"));
    comparable += before.substr(0, before.size() - bytes.size());
  }
  return comparable;
}

std::string serve(std::string_view bytes, size_t piece) {
  Session session;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    session.send(bytes.substr(at, piece));
    if (piece % 2 == 0) session.answer_late();
  }
  session.answer_late();
  return check_answers(session.received(), session.handled());
}

}  // namespace

void http(std::string_view input) {
  Choices choices(input);
  const size_t piece = 1 + choices.byte();
  const std::string whole = serve(choices.rest(), choices.rest().size() + 1);
  const std::string cut = serve(choices.rest(), piece);
  ROSE_CHECK(cut == whole, "in pieces of %zu bytes the answers are\n%s\nand not\n%s", piece,
             cut.c_str(), whole.c_str());
}

}  // namespace rose::fuzz
