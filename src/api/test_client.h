// For tests: a client that sends exactly the bytes it is told and reads answers to their end. A read
// that gets nothing for 20 s gives up, so that a server that hangs fails the test instead of hanging it.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/check.h"

namespace rose::testing {

struct Answer {
  int status = 0;  // 0: the connection ended before an answer was complete
  std::string head;
  std::string body;  // chunks joined

  // The value of a header (its name as the server writes it); empty if absent.
  std::string header(std::string_view name) const {
    const std::string key = "\r\n" + std::string(name) + ": ";
    const size_t at = head.find(key);
    if (at == std::string::npos) return {};
    const size_t begin = at + key.size();
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

class RawClient {
 public:
  explicit RawClient(int port, int receive_buffer = 0) {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (receive_buffer > 0)
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(uint16_t(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient() { close(); }

  bool connected() const { return connected_; }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(size_t(sent));
    }
    return true;
  }

  // Reads until `text` has come (consuming up to its end); false when the connection ends before.
  bool read_until(std::string_view text, std::string* into = nullptr) {
    size_t at;
    while ((at = in_.find(text)) == std::string::npos)
      if (!receive()) return false;
    if (into) *into = in_.substr(0, at);
    in_.erase(0, at + text.size());
    return true;
  }

  // True when the server has closed: nothing more comes.
  bool at_end() {
    if (!in_.empty()) return false;
    return !receive();
  }

  Answer read_head() {
    Answer answer;
    if (!read_until("\r\n\r\n", &answer.head)) return answer;
    answer.head = answer.head + "\r\n";
    answer.status = std::atoi(answer.head.substr(9, 3).c_str());
    return answer;
  }

  // A whole answer, by its length or its chunks; `head_only`: to a HEAD request.
  Answer read(bool head_only = false) {
    Answer answer = read_head();
    if (answer.status == 0 || head_only || answer.status == 204 || answer.status == 304)
      return answer;
    if (answer.header("Transfer-Encoding") == "chunked") {
      for (std::string size; read_until("\r\n", &size);) {
        const size_t bytes = std::strtoul(size.c_str(), nullptr, 16);
        std::string chunk;
        if (!take(bytes + 2, chunk)) break;
        if (bytes == 0) return answer;
        answer.body += chunk.substr(0, bytes);
      }
      answer.status = 0;
      return answer;
    }
    if (!take(std::strtoul(answer.header("Content-Length").c_str(), nullptr, 10), answer.body))
      answer.status = 0;
    return answer;
  }

  Answer get(const std::string& path, const std::string& headers = "") {
    send("GET " + path + " HTTP/1.1\r\nHost: test\r\n" + headers + "\r\n");
    return read();
  }
  void send_post(const std::string& path, const std::string& body,
                 const std::string& headers = "") {
    send(strf("POST %s HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
              "Content-Length: %zu\r\n%s\r\n",
              path.c_str(), body.size(), headers.c_str()) +
         body);
  }
  Answer post(const std::string& path, const std::string& body, const std::string& headers = "") {
    send_post(path, body, headers);
    return read();
  }

 private:
  bool receive() {
    char buffer[16384];
    ssize_t bytes;
    do {  // a signal (a fuzzer's clock) interrupts it, as it has a time limit
      bytes = ::recv(socket_, buffer, sizeof buffer, 0);
    } while (bytes < 0 && errno == EINTR);
    if (bytes > 0) in_.append(buffer, size_t(bytes));
    return bytes > 0;
  }
  bool take(size_t bytes, std::string& into) {
    while (in_.size() < bytes)
      if (!receive()) return false;
    into = in_.substr(0, bytes);
    in_.erase(0, bytes);
    return true;
  }

  int socket_ = -1;
  bool connected_ = false;
  std::string in_;
};

}  // namespace rose::testing
