// The event stream of Chat Completions and Completions: chunks that all begin alike, with the usage so far where
// it was asked for; then the usage of the whole, and [DONE]. Once it has begun, an error is an event.
#pragma once
#include <string>
#include <string_view>

#include "api/generation.h"

namespace rose {

struct ChunkStreamOptions {
  std::string head;  // {"id":…,"choices":[
  bool include_usage = false, continuous_usage = false;
  Headers headers = {};  // of the HTTP answer
};

class ChunkStream {
 public:
  ChunkStream(Exchange exchange, ChunkStreamOptions options);

  void begin();
  // `rest` goes on after the head, to the end of the choices and whatever else but usage.
  void chunk(const Generation& generation, std::string_view rest);
  void end(const Generation& generation);
  void fail(const ApiError& error);

 private:
  void finish();

  Exchange exchange_;
  const ChunkStreamOptions options_;
  std::string text_;  // of the last chunk: its memory is used again
  bool begun_ = false;
};

}  // namespace rose
