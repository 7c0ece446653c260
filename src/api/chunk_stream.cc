#include "api/chunk_stream.h"

#include <utility>

#include "api/answer_json.h"
#include "api/errors.h"
#include "api/intake.h"

namespace rose {

ChunkStream::ChunkStream(Exchange exchange, ChunkStreamOptions options)
    : exchange_(std::move(exchange)), options_(std::move(options)) {}

void ChunkStream::begin() {
  begun_ = true;
  exchange_.begin(event_stream_head(options_.headers));
}

void ChunkStream::chunk(const Generation& generation, std::string_view rest) {
  text_ = "data: ";
  text_ += options_.head;
  text_ += rest;
  if (options_.continuous_usage)
    text_ += ",\"usage\":" + usage_json(generation.usage());
  else if (options_.include_usage)
    text_ += ",\"usage\":null";
  text_ += "}\n\n";
  exchange_.write(text_);
}

void ChunkStream::end(const Generation& generation) {
  if (options_.include_usage)
    exchange_.write("data: " + options_.head + "],\"usage\":" + usage_json(generation.usage()) +
                    "}\n\n");
  finish();
}

void ChunkStream::fail(const ApiError& error) {
  if (!begun_) return exchange_.respond(error_response(error));
  exchange_.write("data: " + error_body(error) + "\n\n");
  finish();
}

void ChunkStream::finish() {
  exchange_.write("data: [DONE]\n\n");
  exchange_.end();
}

}  // namespace rose
