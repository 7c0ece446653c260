// What tests of the bodies of requests share.
#pragma once
#include <gtest/gtest.h>

#include "api/fields.h"
#include "base/json.h"

namespace rose::testing {

// `parse(body, problem)` with every kind of value at every place of a good body: each is read or refused with
// the name of a field, and nothing else happens.
template <class Parse>
void put_everything_everywhere(const char* text, const Parse& parse) {
  const Json good = *parse_json(text);
  Problem none;
  parse(good, none);
  ASSERT_FALSE(none) << none.first->message;
  const Json places = good.flatten();
  const Json values[] = {nullptr,
                         true,
                         0,
                         -1,
                         1e300,
                         5.5,
                         "",
                         "text",
                         {1},
                         {"a"},
                         Json::array(),
                         Json::object(),
                         {{"type", "x"}},
                         Json::array({Json::object()})};
  int refused = 0, read = 0;
  for (const auto& [path, leaf] : places.items())
    for (std::string place = path; !place.empty(); place.erase(place.rfind('/')))
      for (const Json& value : values) {
        Json changed = good;
        changed[Json::json_pointer(place)] = value;
        Problem problem;
        parse(changed, problem);
        problem ? ++refused : ++read;
        if (!problem) continue;
        EXPECT_EQ(problem.first->status, 400);
        EXPECT_FALSE(problem.first->message.empty());
        EXPECT_FALSE(problem.first->param.empty()) << place << " " << value;
      }
  EXPECT_GT(refused, 500);
  EXPECT_GT(read, 200);
}

}  // namespace rose::testing
