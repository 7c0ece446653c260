// Many streamed requests at once from one thread: connects, sends, and notes when each event came.
// For measuring servers, ours and others'; the answers are read only as far as that needs.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "api/http_client.h"
#include "base/result.h"

namespace rose {

struct LoadPlan {
  HttpUrl url;
  std::string target;  // "/v1/chat/completions"
  std::string bearer;
  std::string body;  // of every request; it asks for a stream
  int requests = 0;
  int concurrency = 0;     // at one time, over as many connections
  double ramp_s = 0;       // over which the first ones are spread
  double rate = 0;         // tokens a second that a stream should have; 0: nothing is late
  double timeout_s = 600;  // for the whole
};

struct StreamRecord {
  double first_s = -1;  // from sending to the first event with text; -1: there was none
  double total_s = 0;
  int events = 0;  // with text
  int tokens = 0;  // by the usage in the stream; 0: it tells none
  int lost = 0;    // tokens that the usage jumped over after the first event
  double worst_late_s = 0;
};

struct LoadResult {
  std::vector<StreamRecord> streams;    // that ended well
  std::vector<float> gaps_s;            // between two events of a stream, all of them
  std::map<std::string, int> failures;  // by what went wrong
  double seconds = 0;
  int most_open = 0;
};

Result<LoadResult> run_load(const LoadPlan& plan);

}  // namespace rose
